/** The growth of counters equals the differences of their counts, whichever counters appear, restart and disappear. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { createGrowth } from "../../backends/traffic/mod.ts";
import { BYTES, collectRows, CONNECTIONS, PACKETS } from "../../core/model/mod.ts";
import { runs } from "./runs.ts";

/** The counters of one reading by key, with few enough keys for each to come back, and more than the first capacity. */
const READING = fc.dictionary(
  fc.integer({ min: 0, max: 150 }).map(String),
  fc.record({ first: fc.nat(5), packets: fc.nat(5), bytes: fc.nat(500) }),
  { maxKeys: 150, size: "max" },
);

Deno.test("counters grow by the difference to the previous reading, or by all if they are new or have restarted", () => {
  fc.assert(
    fc.property(fc.array(READING, { minLength: 2, maxLength: 6 }), (readings) => {
      const growth = createGrowth(), places = new Map<string, number>();
      let before: (typeof readings)[number] = {}, most = 0;
      const grownBy = (now: number, was: number) => now < was ? now : now - was;
      for (const reading of readings) {
        for (const [key, { first, packets, bytes }] of Object.entries(reading)) {
          const was = before[key] ?? { first: 0, packets: 0, bytes: 0 };
          const hasRestarted = packets < was.packets;
          const expected = [
            { packets: grownBy(first, was.first), bytes: 0 },
            { packets: grownBy(packets, was.packets), bytes: hasRestarted ? bytes : bytes - was.bytes },
          ];
          const noted = [growth.note("first", key, first, 0), growth.note("second", key, packets, bytes)];
          noted.forEach((grown, i) => {
            const { packets, bytes } = expected[i]!;
            assert.deepEqual(
              grown && { packets: grown.packets, bytes: grown.bytes },
              packets === 0 ? undefined : { packets, bytes },
            );
            if (grown) assert.equal(places.getOrInsert(key, grown.place), grown.place, "a key keeps its place");
          });
        }
        const forgotten = new Set<number>();
        most = Math.max(most, new Set([...Object.keys(before), ...Object.keys(reading)]).size);
        growth.endReading((place) => forgotten.add(place));
        for (const [key, place] of places) {
          assert.equal(forgotten.has(place), reading[key] === undefined);
          assert.ok(place < most, "places are used again");
          if (forgotten.has(place)) places.delete(key);
        }
        assert.equal(new Set(places.values()).size, places.size, "no two keys share a place");
        before = reading;
      }
    }),
    runs(40),
  );
});

Deno.test("the rows of a reading are the sums of what was added", () => {
  const rows = collectRows();
  for (const kind of [CONNECTIONS, PACKETS, PACKETS, BYTES, BYTES, BYTES] as const) {
    rows.add("default/a|tcp", "10.1.0.1:80", kind, 1);
    rows.add("default/b|tcp", "10.1.0.1:80", kind, 2);
  }
  for (const reason of ["no-endpoints", "no-endpoints", "source-range"] as const) rows.fail("default/a|tcp", reason, 2);
  const { ports, endpoints, counts, failures } = rows.take(7);
  assert.deepEqual([ports, endpoints, [...counts]], [
    ["default/a|tcp", "default/b|tcp"],
    ["10.1.0.1:80", "10.1.0.1:80"],
    [1, 2, 3, 2, 4, 6],
  ]);
  assert.deepEqual(failures, [
    { port: "default/a|tcp", reason: "no-endpoints", packets: 4 },
    { port: "default/a|tcp", reason: "source-range", packets: 2 },
  ]);
});
