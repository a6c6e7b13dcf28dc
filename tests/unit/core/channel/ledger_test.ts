import assert from "node:assert/strict";
import { createLedger } from "../../../../core/channel/mod.ts";
import type { SyncReport } from "../../../../core/model/mod.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

function setUp(longest?: number) {
  const clock = createFakeClock(), ledger = createLedger(clock, longest);
  const report = (revision: number, fields: Partial<SyncReport> = {}) =>
    ledger.reported({
      ...{ family: "IPv4", revision, ok: true, full: false, endedAtMs: revision * 1000, durationMs: 1 },
      ...{ problems: [], counts: {}, ...fields },
    });
  /** A list of numbers that wait, and what has settled as `KEY=NUMBER`. */
  const awaiting = () => {
    const settled: string[] = [];
    const list = ledger.awaiting<string, number>({
      settled: (items) => settled.push(...items.map(([key, item]) => `${key}=${item}`)),
    });
    return { list, settled };
  };
  return { clock, ledger, report, awaiting };
}

const refusal = (servicePort: string, message: string) =>
  [{ code: "rules-refused", servicePort, message }] as const satisfies SyncReport["problems"];

const inEffect = (revision: number, syncedAtMs: number) => (
  { state: "in effect", revision, syncedAtMs, orEarlier: false }
);
const waits = (revision: number | undefined) => (
  { state: "waiting", revision, syncedAtMs: undefined, orEarlier: false }
);

Deno.test("changes wait until a sync of their revision succeeds", () => {
  const { ledger, report } = setUp();
  ledger.planned(["a", "b"]);
  assert.equal(ledger.waiting(true), 2);
  ledger.sent(1, 1);
  ledger.planned(["b", "c"]);
  assert.equal(ledger.waiting(true), 3);
  report(1, { ok: false });
  assert.equal(ledger.waiting(true), 3, "a failed sync brings nothing into effect");
  report(1);
  assert.equal(ledger.waiting(true), 2);
  assert.equal(ledger.waiting(false), 0, "a change that was reverted before it was sent does not wait");
  ledger.sent(2, 2);
  assert.equal(ledger.waiting(false), 2);
  report(2);
  assert.equal(ledger.waiting(false), 0);
});

Deno.test("a change is in effect with the first revision that carries it", () => {
  const { ledger, report } = setUp();
  const effect = (round: number, hasUnsent = true) => ledger.effect("a", round, hasUnsent);
  assert.deepEqual(effect(1), waits(undefined));
  ledger.sent(1, 3);
  assert.deepEqual(effect(2), waits(1));
  report(1);
  assert.deepEqual(effect(3), inEffect(1, 1000));
  assert.deepEqual(effect(4), waits(undefined));
  assert.deepEqual(effect(4, false), {
    ...inEffect(0, 0),
    revision: undefined,
    syncedAtMs: undefined,
    orEarlier: true,
  });
  ledger.sent(2, 4);
  ledger.sent(3, 6);
  report(3);
  report(3, { endedAtMs: 9000 });
  assert.deepEqual(effect(4), inEffect(2, 3000));
  assert.deepEqual(effect(5), inEffect(3, 3000), "a later comparison does not count");
});

Deno.test("of many syncs the first and the last are kept, and changes in between are marked as such", () => {
  const { ledger, report } = setUp(4);
  for (let revision = 1; revision <= 10; revision++) {
    ledger.sent(revision, revision);
    report(revision);
  }
  const effect = (round: number) => ledger.effect("a", round, true);
  assert.deepEqual(effect(1), inEffect(1, 1000));
  assert.deepEqual(effect(2), { ...inEffect(8, 8000), orEarlier: true });
  assert.deepEqual(effect(9), inEffect(9, 9000));
  assert.deepEqual(effect(11), waits(undefined));
});

Deno.test("a service port is refused from the first sync that failed for it until one succeeds", () => {
  const { ledger, report } = setUp();
  const name = "default/web";
  ledger.sent(1, 1);
  report(1, { problems: refusal(name, "nft: bad address") });
  report(2, { problems: refusal(name, "nft: still bad") });
  const refused = { ...inEffect(1, 1000), state: "refused", refusal: "nft: still bad" };
  assert.deepEqual(ledger.effect(name, 1, false), refused);
  report(3, { ok: false });
  assert.deepEqual(ledger.effect(name, 1, false), refused, "a failed sync says nothing about it");
  assert.deepEqual(ledger.effect(name, 2, true), waits(undefined), "a later change waits");
  report(4, { problems: [{ code: "not-relayed", servicePort: name, message: "no free port" }] });
  assert.deepEqual(ledger.effect(name, 1, false), inEffect(1, 1000), "a problem that leaves it served is no refusal");
});

Deno.test("a report returns the trigger times of the changes that it brought into effect", () => {
  const { ledger, report } = setUp();
  ledger.planned(["a"], [100, 200]);
  assert.deepEqual(report(1), []);
  ledger.sent(2, 1);
  ledger.planned(["b"], [300]);
  assert.deepEqual(report(2, { ok: false }), []);
  assert.deepEqual(report(2), [100, 200]);
  ledger.sent(3, 2);
  assert.deepEqual(report(4), [300]);
});

Deno.test("an item waits for the revision that carries it, and settles once", () => {
  const { ledger, report, awaiting } = setUp();
  const { list, settled } = awaiting();
  list.add("a", 1);
  report(1);
  assert.deepEqual(settled, [], "it was not sent");
  ledger.sent(2, 1);
  list.add("b", 1);
  report(1);
  report(2, { ok: false });
  assert.deepEqual(settled, []);
  report(2);
  report(3);
  assert.deepEqual(settled, ["a=1"]);
});

Deno.test("an unsent item is replaced; sent ones settle in their order, even if they share a key", () => {
  const { ledger, report, awaiting } = setUp();
  const { list, settled } = awaiting();
  list.add("a", 1);
  assert.equal(list.unsent("a"), 1);
  list.add("a", 2);
  ledger.sent(1, 1);
  assert.equal(list.unsent("a"), undefined);
  list.add("a", 3);
  list.add("b", 3);
  list.add("c", 3);
  list.deleteUnsent("c");
  ledger.sent(2, 2);
  report(2);
  assert.deepEqual(settled, ["a=2", "a=3", "b=3"]);
});

Deno.test("items settle in the order of their revisions, also if many are in flight", () => {
  const { ledger, report, awaiting } = setUp();
  const { list, settled } = awaiting();
  for (let revision = 1; revision <= 17; revision++) {
    if (revision === 1) list.add("first", revision);
    if (revision === 3) list.add("third", revision);
    ledger.sent(revision, revision);
  }
  report(17);
  assert.deepEqual(settled, ["first=1", "third=3"]);
});

Deno.test("a deleted item does not settle", () => {
  const { ledger, report, awaiting } = setUp();
  const { list, settled } = awaiting();
  list.add("a", 1);
  ledger.sent(1, 1);
  list.add("b", 1);
  list.delete("a");
  list.delete("b");
  ledger.sent(2, 1);
  report(2);
  assert.deepEqual(settled, []);
});

Deno.test("items that nothing has to be sent for settle with what was sent last", () => {
  const { ledger, report, awaiting } = setUp();
  const { list, settled } = awaiting();
  list.add("a", 1);
  ledger.unchanged();
  assert.deepEqual(settled, [], "nothing was in effect yet");
  ledger.sent(1, 1);
  list.add("b", 1);
  ledger.unchanged();
  assert.deepEqual(settled, []);
  report(1);
  assert.deepEqual(settled, ["a=1", "b=1"]);
  list.add("c", 1);
  ledger.unchanged();
  assert.deepEqual(settled, ["a=1", "b=1", "c=1"]);
});

Deno.test("a long series of failures keeps one item for each key, and counts each service port once", () => {
  const { ledger, report, awaiting } = setUp();
  const { list, settled } = awaiting();
  for (let revision = 1; revision <= 1000; revision++) {
    ledger.planned([`port ${revision % 10}`], revision % 100 === 0 ? [revision] : []);
    list.add("a", revision);
    ledger.sent(revision, revision);
    report(revision, { ok: false });
  }
  assert.equal(ledger.waiting(false), 10);
  assert.deepEqual(report(1000), [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]);
  assert.equal(ledger.waiting(false), 0);
  assert.equal(settled.length, 16);
  assert.equal(settled.at(-1), "a=1000");
});
