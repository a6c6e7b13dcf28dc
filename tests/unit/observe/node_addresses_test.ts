import assert from "node:assert/strict";
import { addressesWithin } from "../../../observe/mod.ts";

Deno.test("the host's addresses within the prefixes are returned once each, without link-local ones", () => {
  const found = ["127.0.0.1", "192.0.2.7", "192.0.2.7", "10.0.0.1", "2001:DB8::7", "fe80::1", "fe80::1%eth0"];
  const list = () => [
    ...found.map((address) => ({ name: "eth0", address })),
    // Addresses that IPVS mode assigns to the node are not the node's own.
    { name: "kube-ipvs0", address: "192.0.2.8" },
  ];
  assert.deepEqual(addressesWithin(["192.0.2.0/24", "::/0"], list), ["192.0.2.7", "2001:db8::7"]);
  assert.deepEqual(addressesWithin(["198.51.100.0/24"], list), []);
});

Deno.test("all addresses of both families need no list", () => {
  const list = () => [{ name: "eth0", address: "192.0.2.7" }];
  assert.equal(addressesWithin(["127.0.0.0/8", "0.0.0.0/0", "::/0"], list), undefined);
  assert.deepEqual(addressesWithin(["0.0.0.0/0"], list), ["192.0.2.7"]);
});
