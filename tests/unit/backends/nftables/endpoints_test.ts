import assert from "node:assert/strict";
import { numberingOf } from "../../../../backends/nftables/affinity_names.ts";
import { keepSlots } from "../../../../backends/nftables/endpoints.ts";
import type { ServicePort } from "../../../../core/model/mod.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { backendUnderTest } from "./host.ts";

const endpoints = (...hosts: readonly number[]) => hosts.map((host) => `10.1.${host >> 8}.${host & 255}:8080`);
const shop = (...hosts: readonly number[]): ServicePort =>
  fakeServicePort("shop/web:http", {
    clusterIP: "10.96.0.1",
    external: "reject",
    clusterEndpoints: endpoints(...hosts),
  });
const slotsAfter = (held: readonly number[], wanted: readonly number[]) =>
  keepSlots(shop(...wanted), shop(...held)).clusterEndpoints;

Deno.test("endpoints keep their slots, and others take the free ones", () => {
  assert.deepEqual(slotsAfter([1, 2, 3], [2, 3, 4]), endpoints(4, 2, 3));
  assert.deepEqual(slotsAfter([1, 2, 3], [0, 1, 2, 3]), endpoints(1, 2, 3, 0));
  assert.deepEqual(slotsAfter([1, 2, 3, 4], [3, 4]), endpoints(3, 4));
  assert.deepEqual(slotsAfter([1, 2, 3, 4], [2, 4, 5]), endpoints(4, 2, 5));
  assert.deepEqual(slotsAfter([], [1, 2]), endpoints(1, 2));
  assert.deepEqual(slotsAfter([1, 2], []), []);
});

Deno.test("a service port with weights keeps the order that its tables depend on", () => {
  const port: ServicePort = { ...shop(2, 3, 4), balance: { algorithm: "round-robin" } };
  assert.equal(keepSlots(port, shop(1, 2, 3)), port);
});

Deno.test("with session affinity, endpoints keep their numbers, and new ones take the lowest that no endpoint has had", () => {
  const sticky = (...hosts: readonly number[]) => ({ ...shop(...hosts), affinitySeconds: 60 });
  let held = keepSlots(sticky(1, 2, 3), undefined);
  const numbersAfter = (...hosts: readonly number[]) => {
    held = keepSlots(sticky(...hosts), held);
    return hosts.map((host) => held.numbering!.numbers.get(endpoints(host)[0]!));
  };
  assert.deepEqual(numbersAfter(1, 2, 3), [0, 1, 2]);
  assert.deepEqual(numbersAfter(2, 3), [1, 2]);
  assert.deepEqual(numbersAfter(0, 2, 3, 9), [3, 1, 2, 4]);
  assert.deepEqual(numbersAfter(9), [4]);
  assert.deepEqual(numbersAfter(1, 9, 10), [5, 4, 6]);
});

/** A backend, and the statements about elements in its last transaction. */
function serving(host?: Parameters<typeof backendUnderTest>[0]) {
  const under = backendUnderTest(host);
  const changed = () =>
    under.host.transactions.at(-1)!.filter((statement) => /^(add|delete) element \S+ \S+ tcp-endpoints/.test(statement))
      .flatMap((statement) => statement.split(", ")).length;
  return { ...under, changed };
}

const MANY = Array.from({ length: 1000 }, (_, i) => i);

Deno.test("one endpoint of a thousand that is replaced is one element deleted and one added", async () => {
  const { snapshot, change, changed } = serving();
  await snapshot([shop(...MANY)]);
  await change([shop(...MANY.slice(1), 2000)]);
  assert.equal(changed(), 2);
});

Deno.test("one endpoint more is one element added, one fewer moves another one into its slot", async () => {
  const { snapshot, change, changed } = serving();
  await snapshot([shop(...MANY)]);
  await change([shop(...MANY, 2000)]);
  assert.equal(changed(), 1);
  await change([shop(...MANY.slice(1), 2000)]);
  assert.equal(changed(), 3);
});

Deno.test("a restart takes over the slots in the kernel", async () => {
  const before = serving();
  await before.snapshot([shop(...MANY)]);
  await before.change([shop(...MANY.slice(1), 2000)]);
  const written = before.host.transactions.length;
  const after = serving(before.host);
  await after.snapshot([shop(...MANY.slice(1), 2000)]);
  assert.equal(before.host.transactions.length, written, "nothing differs");
  await after.change([shop(...MANY.slice(2), 2000, 2001)]);
  assert.equal(after.changed(), 2);
});

Deno.test("the numbers of very many endpoints fit into 16 bits, however many were replaced", () => {
  const many = Array.from({ length: 6_000 }, (_, i) => `10.${i >> 8}.${i & 255}.1:80`);
  const port = { ...shop(), affinitySeconds: 60, clusterEndpoints: many };
  const held = numberingOf({ ...port, clusterEndpoints: many.slice(1) });
  const spent = new Set(Array.from({ length: 60_000 }, (_, i) => 5_999 + i));
  const { numbers } = numberingOf(port, { ...held, spent });
  assert.ok(Math.max(...numbers.values()) < 65_536);
  assert.equal(new Set(numbers.values()).size, many.length);
});
