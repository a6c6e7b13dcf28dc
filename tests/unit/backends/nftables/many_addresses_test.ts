/** Service ports with many external addresses, which share one list of endpoints. */
import assert from "node:assert/strict";
import { kernelSize, type ServicePort } from "../../../../core/model/mod.ts";
import type { NftTable } from "../../../fakes/nft_tables.ts";
import { MASQUERADED, outcomeShares } from "../../../fakes/packet.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { backendUnderTest } from "./host.ts";

const ADDRESSES = Array.from({ length: 100 }, (_, index) => `192.0.2.${index}`);
const ENDPOINTS = ["10.1.0.1:8080", "10.1.0.2:8080", "10.1.0.3:8080", "10.1.0.4:8080"];

const web = (changes: Partial<ServicePort> = {}) =>
  fakeServicePort("default/web:http", { externalIPs: ADDRESSES, clusterEndpoints: ENDPOINTS, ...changes });

/** The number of endpoints in all maps. */
const endpointsIn = ({ sets }: NftTable) =>
  [...sets].reduce((count, [name, { elements }]) => count + (name.includes("endpoints") ? elements.size : 0), 0);

Deno.test("an endpoint has an element for the cluster IP and one for all external addresses", async () => {
  const { snapshot, change, host, table } = backendUnderTest();
  assert.deepEqual((await snapshot([web()])).problems, []);
  assert.equal(endpointsIn(table()), 2 * ENDPOINTS.length);
  assert.equal(table().sets.get("services")!.elements.size, 1 + ADDRESSES.length);
  assert.equal(kernelSize(web()), 1 + ADDRESSES.length + 2 * ENDPOINTS.length);
  host.transactions.length = 0;
  await change([web({ clusterEndpoints: [...ENDPOINTS.slice(0, 3), "10.1.0.9:8080"] })]);
  assert.equal(host.transactions.length, 1);
  // An element is deleted and added in each of both maps.
  assert.equal(host.transactions[0]!.length, 4);
});

Deno.test("each of many external addresses reaches every endpoint", async () => {
  const { snapshot, host } = backendUnderTest();
  await snapshot([web()]);
  const shares = Object.fromEntries(ENDPOINTS.map((endpoint) => [endpoint + MASQUERADED, 1 / ENDPOINTS.length]));
  for (const to of [ADDRESSES[0]!, ADDRESSES[57]!, "10.96.0.10"]) {
    assert.deepEqual(outcomeShares(host, { from: "outside", to, port: 80 }), shares);
  }
});

Deno.test("with session affinity, all external addresses have the chains of the service port, and no list", async () => {
  const { snapshot, host, table } = backendUnderTest();
  await snapshot([web({ affinitySeconds: 60 })]);
  assert.deepEqual([...table().sets.keys()].filter((name) => name.startsWith("outside-")), []);
  const shares = Object.fromEntries(ENDPOINTS.map((endpoint) => [endpoint + MASQUERADED, 1 / ENDPOINTS.length]));
  assert.deepEqual(outcomeShares(host, { from: "outside", to: ADDRESSES[57]!, port: 80 }), shares);
});

Deno.test("many load balancer IPs of policy Local serve this node's own traffic from every endpoint", async () => {
  const { snapshot, host, table } = backendUnderTest();
  const [local, ...remote] = ENDPOINTS;
  const changes = { localEndpoints: [local!], endpointsOnThisNode: [local!], clusterEndpoints: [local!, remote[0]!] };
  await snapshot([web({ externalIPs: [], loadBalancerIPs: ADDRESSES, external: "local", ...changes })]);
  assert.equal(endpointsIn(table()), 2 + 1 + 2);
  for (const to of [ADDRESSES[0]!, ADDRESSES[99]!]) {
    assert.deepEqual(outcomeShares(host, { from: "outside", to, port: 80 }), { [local!]: 1 });
    const ofNode = { [local! + MASQUERADED]: 0.5, [remote[0]! + MASQUERADED]: 0.5 };
    assert.deepEqual(outcomeShares(host, { from: "node", to, port: 80 }), ofNode);
  }
});

Deno.test("a comparison finds a service port with many external addresses as it was written, in both families", async () => {
  for (const family of ["IPv4", "IPv6"] as const) {
    const { snapshot, backend, host } = backendUnderTest(undefined, family);
    const addresses = ADDRESSES.map((address, index) => family === "IPv4" ? address : `2001:db8::${index + 1}`);
    const of6 = { clusterIP: "fd00:96::1", clusterEndpoints: ["[fd00:10::1]:8080", "[fd00:10::2]:8080"] };
    await snapshot([web({ externalIPs: addresses, ...(family === "IPv6" && of6) })]);
    host.transactions.length = 0;
    await backend.resync();
    assert.deepEqual(host.transactions, []);
  }
});

Deno.test("a comparison deletes elements that another program added to the shared list", async () => {
  const { snapshot, backend, clock, table } = backendUnderTest();
  await snapshot([web()]);
  const [, list] = [...table().sets].find(([name]) => name.startsWith("outside-"))!;
  list.elements.set("80 . 7", "10.1.0.7 . 8080");
  clock.advance(86_400_000);
  await backend.resync();
  assert.equal(endpointsIn(table()), 2 * ENDPOINTS.length);
});

Deno.test("nothing is left of the chain when most external addresses are removed", async () => {
  const { snapshot, change, table } = backendUnderTest();
  await snapshot([web()]);
  const outside = () =>
    [...table().chains.keys(), ...table().sets.keys()].filter((name) => name.startsWith("outside-"));
  assert.equal(outside().length, 2);
  await change([web({ externalIPs: ADDRESSES.slice(0, 2) })]);
  assert.deepEqual(outside(), []);
  assert.equal(table().sets.get("tcp-endpoints")!.elements.size, 3 * ENDPOINTS.length);
});
