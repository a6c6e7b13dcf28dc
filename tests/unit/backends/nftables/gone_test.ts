import assert from "node:assert/strict";
import type { FamilySettings, ServicePort } from "../../../../core/model/mod.ts";
import { createFakeNftHost } from "../../../fakes/nft_runner.ts";
import type { PacketRequest } from "../../../fakes/packet.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { backendUnderTest, nftSettings } from "./host.ts";

const RESETTING = nftSettings({ resetsGone: true, goneTimeoutMs: 3_600_000 });
const web = (...endpoints: readonly string[]) =>
  fakeServicePort("default/web", {
    clusterEndpoints: endpoints,
    internal: endpoints.length > 0 ? "cluster" : "reject",
  });
const ONE = "10.1.0.1:8080", TWO = "10.1.0.2:8080";

function underTest(host = createFakeNftHost()) {
  const { backend, table } = backendUnderTest(host);
  let revision = 0;
  const sync = (set: readonly ServicePort[], gone?: readonly string[], settings?: FamilySettings) =>
    backend.sync({
      revision: ++revision,
      base: settings ? undefined : revision - 1,
      settings,
      set,
      deleted: [],
      ...gone && { gone },
    });
  const elements = () => [...table().sets.get("gone-endpoints")!.elements.keys()];
  const chains = () => [...table().chains.keys()].filter((name) => name.startsWith("gone-"));
  return { host, backend, table, sync, elements, chains };
}

Deno.test("endpoints that are gone are in the set until they are used again, and looked up only while there are any", async () => {
  const { backend, sync, elements, chains, table } = underTest();
  await sync([web(ONE, TWO)], undefined, RESETTING);
  assert.deepEqual([elements(), chains()], [[], []]);
  await sync([web(TWO)], [ONE]);
  assert.deepEqual([elements(), chains()], [["10.1.0.1 . 8080"], ["gone-forward", "gone-output"]]);
  await sync([], [TWO]);
  assert.equal(elements().length, 2);
  // Comparisons keep both.
  assert.equal((await backend.resync()).figures.drift_repaired, 0);
  assert.equal(elements().length, 2);
  await sync([web(ONE, TWO)]);
  assert.deepEqual(elements(), []);
  assert.equal((await backend.resync()).figures.drift_repaired, 0);
  assert.deepEqual(chains(), []);
  assert.ok(table().sets.has("gone-endpoints"));
});

Deno.test("the chains go when the last element has expired", async () => {
  const { backend, sync, chains, table } = underTest();
  await sync([web(ONE)], undefined, RESETTING);
  await sync([web(TWO)], [ONE]);
  table().sets.get("gone-endpoints")!.elements.clear();
  await backend.resync();
  assert.deepEqual(chains(), []);
  await sync([web(TWO)], [ONE]);
  assert.equal(chains().length, 2);
});

Deno.test("a new proxy takes the set over, without the endpoints that are used again", async () => {
  const host = createFakeNftHost();
  const first = underTest(host);
  await first.sync([web(ONE, TWO)], undefined, RESETTING);
  await first.sync([], [ONE, TWO]);
  const second = underTest(host);
  const { figures } = await second.sync([web(TWO)], undefined, RESETTING);
  assert.equal(figures.drift_repaired ?? 0, 0);
  assert.deepEqual(second.elements(), ["10.1.0.1 . 8080"]);
  assert.equal(second.chains().length, 2);
});

Deno.test("without the setting, the set and its chains are removed", async () => {
  const host = createFakeNftHost();
  const first = underTest(host);
  await first.sync([web(ONE)], undefined, RESETTING);
  await first.sync([web(TWO)], [ONE]);
  const second = underTest(host);
  await second.sync([web(TWO)], [ONE], nftSettings());
  assert.deepEqual(second.chains(), []);
  assert.ok(!second.table().sets.has("gone-endpoints"));
});

Deno.test("a removal that fails is repeated before the endpoint serves again", async () => {
  const { host, sync, elements } = underTest();
  await sync([web(ONE)], undefined, RESETTING);
  await sync([web(TWO)], [ONE]);
  host.refuses = (statement) => statement.startsWith("delete element ip sluice gone") ? "Device busy" : undefined;
  await assert.rejects(sync([web(ONE, TWO)]), /Device busy/);
  host.refuses = () => undefined;
  await sync([]);
  assert.deepEqual(elements(), []);
});

Deno.test("packets of connections to endpoints that are gone are rejected, and no others", async () => {
  const { host, sync } = underTest();
  await sync([web(ONE)], undefined, RESETTING);
  const packet = { from: "pod-on-node", to: "10.1.0.1", port: 8080, state: "ESTABLISHED" } satisfies PacketRequest;
  const send = (changes: Partial<PacketRequest> = {}) =>
    host.send({ ...packet, isTranslated: true, ...changes }).verdict;
  assert.equal(send(), "passed");
  await sync([], [ONE]);
  assert.equal(send(), "rejected");
  assert.equal(send({ from: "node" }), "rejected");
  assert.equal(send({ port: 8081 }), "passed");
  assert.equal(send({ to: "10.1.0.9" }), "passed");
  assert.equal(host.send(packet).verdict, "passed", "a connection to the pod itself");
});
