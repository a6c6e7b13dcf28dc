import assert from "node:assert/strict";
import { admittedSources, frontendsOf } from "../../../../core/model/mod.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";

const FULL = fakeServicePort("default/web:http", {
  externalIPs: ["192.0.2.1"],
  loadBalancerIPs: ["192.0.2.2", "192.0.2.3"],
  loadBalancerSources: { ranges: ["203.0.113.0/24"], includeNode: false },
  nodePort: 30080,
});

Deno.test("a service port lists its frontends; source ranges restrict the load balancer IPs alone", () => {
  assert.deepEqual(frontendsOf(FULL).map(({ kind, address, port, sources }) => [kind, address, port, sources]), [
    ["clusterIP", "10.96.0.10", 80, undefined],
    ["externalIP", "192.0.2.1", 80, undefined],
    ["loadBalancerIP", "192.0.2.2", 80, ["203.0.113.0/24"]],
    ["loadBalancerIP", "192.0.2.3", 80, ["203.0.113.0/24"]],
    ["nodePort", "", 30080, undefined],
  ]);
});

Deno.test("each frontend has its verdict; with policy Local this node's own traffic may use the whole cluster", () => {
  const verdicts = (external: "cluster" | "local" | "reject" | "drop") =>
    frontendsOf({ ...FULL, internal: "drop", external }).map(({ verdict, ownVerdict }) => `${verdict}/${ownVerdict}`);
  for (
    const [external, expected] of [
      ["cluster", "cluster/cluster"],
      ["local", "local/cluster"],
      ["drop", "drop/cluster"],
      ["reject", "reject/reject"],
    ] as const
  ) {
    assert.deepEqual(verdicts(external), ["drop/drop", ...Array(4).fill(expected)]);
  }
});

Deno.test("where the node is admitted, so are the load balancer IPs themselves, in either family", () => {
  const ranges = ["203.0.113.0/24"];
  assert.deepEqual(admittedSources({ ...FULL, loadBalancerSources: { ranges, includeNode: true } }), [
    "203.0.113.0/24",
    "192.0.2.2/32",
    "192.0.2.3/32",
  ]);
  const six = { loadBalancerIPs: ["2001:db8::2"], loadBalancerSources: { ranges: ["fd00::/64"], includeNode: true } };
  assert.deepEqual(admittedSources(six), ["fd00::/64", "2001:db8::2/128"]);
  assert.equal(admittedSources({ ...six, loadBalancerSources: undefined }), undefined);
});
