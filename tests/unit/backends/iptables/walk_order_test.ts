import assert from "node:assert/strict";
import { serviceChainNames } from "../../../../backends/xtables/chains.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { backendUnderTest } from "./host.ts";

Deno.test("the rules of services are created in the order of cluster IPs, whatever their names and chains", async () => {
  const { snapshot, takeInputs } = await backendUnderTest();
  const ports = Array.from({ length: 20 }, (_, i) => (
    fakeServicePort(`default/svc-${i * 7 % 20}:http`, { clusterIP: `10.96.${i < 10 ? 10 : 9}.${200 - i}` })
  ));
  await snapshot(ports);
  const created = takeInputs().join("").matchAll(/^-A (KUBE-SVC-[A-Z2-7]{16}) /gm);
  const byAddress = ports.toReversed().map((port) => serviceChainNames(port).cluster);
  assert.deepEqual([...new Set([...created].map(([, chain]) => chain))], byAddress);
});
