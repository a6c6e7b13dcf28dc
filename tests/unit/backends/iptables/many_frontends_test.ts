/** The work for a service port with many frontends, counted in readings of the service port. */
import assert from "node:assert/strict";
import type { ServicePort } from "../../../../core/model/mod.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { backendUnderTest } from "./host.ts";

Deno.test("the rules of a service port are rendered once for each change, not once for each of its frontends", async () => {
  const { snapshot, takeInputs } = await backendUnderTest();
  const addresses = Array.from({ length: 500 }, (_, i) => `198.18.${i >> 8}.${i & 255}`);
  let readings = 0;
  const port: ServicePort = {
    ...fakeServicePort("default/many:p", { external: "cluster" }),
    get externalIPs() {
      readings++;
      return addresses;
    },
  };
  await snapshot([port]);
  assert.equal(takeInputs().join("").match(/external IP/g)!.length, addresses.length);
  assert.ok(readings < addresses.length, `${readings} readings`);
});
