import assert from "node:assert/strict";
import fc from "fast-check";
import { type FamilyDelta, type ServicePort, servicePortKey } from "../../core/model/mod.ts";
import { checkedMessage } from "../../workers/checked_message.ts";
import { createPacking, createUnpacking, type PackedDelta } from "../../workers/packed_delta.ts";
import { byKey, fakeServicePort } from "../fakes/service_port.ts";
import { runs } from "./runs.ts";

const ALL = Array.from({ length: 120 }, (_, i) => `10.1.${i % 7}.${i}:80`).sort();

/** A list of most of these endpoints, or of few. */
const lists = fc.oneof(
  { weight: 5, arbitrary: fc.subarray(ALL, { minLength: 110 }) },
  { weight: 1, arbitrary: fc.subarray(ALL, { maxLength: 3 }) },
  // The planner sorts them, but that is not for the channel to know.
  { weight: 1, arbitrary: fc.shuffledSubarray(ALL, { minLength: 115 }) },
);

const ports = fc.record({
  name: fc.constantFrom("x/a", "x/b"),
  nodePort: fc.constantFrom(0, 0, 0, 30_000),
  clusterEndpoints: lists,
  localEndpoints: fc.subarray(ALL, { maxLength: 3 }),
  endpointsOnThisNode: fc.subarray(ALL, { maxLength: 2 }),
  lingeringEndpoints: fc.subarray(ALL, { maxLength: 2 }),
}).map(({ name, ...fields }) => fakeServicePort(name, fields));

const deltas = fc.record({
  isSnapshot: fc.constantFrom(true, false, false, false, false, false),
  set: fc.array(ports, { maxLength: 2 }),
  deleted: fc.constantFrom([], [], ["x/b|tcp"]),
}).map(({ isSnapshot, set, deleted }): FamilyDelta => ({
  revision: 1,
  base: isSnapshot ? undefined : 0,
  settings: undefined,
  set: [...byKey(set).values()],
  deleted: isSnapshot ? [] : deleted,
}));

function travelled(packed: PackedDelta): PackedDelta {
  const message = checkedMessage(structuredClone({ type: "sync", delta: packed }));
  assert.ok(message.type === "sync");
  return message.delta;
}

const ofKeys = (set: readonly ServicePort[]) =>
  new Map(set.map((port) => [servicePortKey(port.name, port.protocol), port]));

Deno.test("every delta arrives as it was sent, whatever came before", () => {
  fc.assert(
    fc.property(fc.array(deltas, { maxLength: 12 }), (sent) => {
      const pack = createPacking();
      let unpack = createUnpacking();
      for (const delta of sent) {
        // A worker that was restarted gets a snapshot first.
        if (delta.base === undefined) unpack = createUnpacking();
        const { set, ...rest } = unpack(travelled(pack(delta)));
        assert.deepEqual(ofKeys(set), ofKeys(delta.set));
        assert.deepEqual({ ...rest, set: [] }, { ...delta, set: [] });
      }
    }),
    runs(100),
  );
});

Deno.test("of a large service port, only the changed endpoints travel", () => {
  const pack = createPacking(), unpack = createUnpacking();
  const port = (clusterEndpoints: readonly string[]) => fakeServicePort("x/a", { clusterEndpoints });
  const delta = (base: number | undefined, ...set: ServicePort[]): FamilyDelta => ({
    ...{ revision: 1, base, settings: undefined, set, deleted: [] },
  });
  unpack(travelled(pack(delta(undefined, port(ALL)))));
  const next = [...ALL.slice(0, 5), ...ALL.slice(6), "10.2.0.1:80"];
  const packed = pack(delta(1, port(next)));
  assert.deepEqual(packed.set, []);
  assert.deepEqual(packed.edited?.map(({ clusterEndpoints }) => clusterEndpoints), [[
    { at: 5, removed: 1, added: [] },
    { at: 120, removed: 0, added: ["10.2.0.1:80"] },
  ]]);
  assert.deepEqual(unpack(travelled(packed)).set.map(({ clusterEndpoints }) => clusterEndpoints), [next]);
});

Deno.test("a change of a service port that the worker does not know is refused", () => {
  const pack = createPacking();
  const delta = (base: number | undefined, clusterEndpoints: readonly string[]): FamilyDelta => ({
    ...{ revision: 1, base, settings: undefined, deleted: [] },
    set: [fakeServicePort("x/a", { clusterEndpoints })],
  });
  pack(delta(undefined, ALL));
  const packed = pack(delta(1, ALL.slice(1)));
  assert.throws(() => createUnpacking()(packed), /unknown service port x\/a\|tcp/);
});

// As arguments of a call, so many would exceed the stack.
Deno.test("150,000 endpoints may join a large service port at once", () => {
  const packing = createPacking(), unpacking = createUnpacking();
  const all = Array.from({ length: 150_000 }, (_, i) => `10.${i >> 16}.${i >> 8 & 255}.${i & 255}:80`);
  const deltaOf = (base: number | undefined, endpoints: readonly string[]): FamilyDelta => ({
    revision: 1,
    base,
    settings: undefined,
    set: [fakeServicePort("x/a", { clusterEndpoints: endpoints })],
    deleted: [],
  });
  unpacking(packing(deltaOf(undefined, all.slice(0, 100))));
  const packed = packing(deltaOf(0, all));
  assert.deepEqual([packed.set.length, packed.edited?.length], [0, 1]);
  assert.equal(unpacking(packed).set[0]!.clusterEndpoints.length, all.length);
});
