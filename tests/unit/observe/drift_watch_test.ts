/** Recurring changes by other programs, and which program is named for them. */
import assert from "node:assert/strict";
import { createProblemBoard } from "../../../core/problems/mod.ts";
import type { Family, SyncReport } from "../../../core/model/mod.ts";
import { createDriftWatch, type Neighbour } from "../../../observe/neighbours.ts";
import { createLogger } from "../../../platform/log.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";

function setUp(neighbours: readonly Neighbour[] | Promise<readonly Neighbour[]>) {
  const lines: string[] = [];
  const write = (line: string) => lines.push(line.replace(/^\S+ /, "").trim());
  const clock = createFakeClock();
  const logger = createLogger({ level: "info", format: "text", clock, write });
  const { report: onProblems } = createProblemBoard(clock, logger);
  const watch = createDriftWatch({ findNeighbours: async () => await neighbours, onProblems, clock, logger });
  /** A comparison some seconds after the last one. */
  const compare = async (
    repaired: number,
    { afterMs = 4_000, ...fields }: Partial<SyncReport> & { afterMs?: number } = {},
  ) => {
    clock.advance(afterMs);
    const report = { family: "IPv4" as Family, revision: 1, ok: true, full: true, endedAtMs: 0, durationMs: 1 };
    watch.report({ ...report, problems: [], counts: { drift_repaired: repaired }, ...fields });
    await settled();
  };
  return { lines, compare };
}

const KUBE_PROXY: Neighbour = { kind: "kube-proxy", answersOn: "127.0.0.1:10249/proxyMode", port: 10249 };
const OTHER: Neighbour = { kind: "like kube-proxy", answersOn: "127.0.0.1:10256/healthz", port: 10256 };
const SELF: Neighbour = { kind: "Sluice", answersOn: "127.0.0.1:10256/healthz", port: 10256 };

for (
  const [neighbours, detail] of [
    [[SELF, KUBE_PROXY], "kube-proxy answers on 127.0.0.1:10249/proxyMode"],
    [[OTHER], "a proxy that answers as kube-proxy does answers on 127.0.0.1:10256/healthz"],
    [[SELF], "no other proxy answers on this node's ports"],
  ] as const
) {
  Deno.test(`recurring changes are one problem: ${detail}`, async () => {
    const { lines, compare } = setUp(neighbours);
    await compare(3);
    assert.equal(lines.length, 0);
    for (let round = 0; round < 3; round++) await compare(2);
    const named = lines.map((line) => line.includes(`code=rules-changed-by-others subject=IPv4 detail="${detail}"`));
    assert.deepEqual(named, [true]);
  });
}

Deno.test("changes that happen once are not a problem, even in several steps, and families are counted separately", async () => {
  const { lines, compare } = setUp([KUBE_PROXY]);
  await compare(3);
  await compare(2, { afterMs: 1_000 });
  await compare(2, { afterMs: 1_000 });
  await compare(0);
  await compare(3, { family: "IPv6" });
  await compare(0, { afterMs: 60_000 });
  await compare(1);
  assert.deepEqual(lines, []);
});

Deno.test("a program whose changes are repaired at once is a problem all the time", async () => {
  const { lines, compare } = setUp([KUBE_PROXY]);
  for (let round = 0; round < 10; round++) {
    await compare(1);
    await compare(0, { afterMs: 10 });
  }
  assert.deepEqual(lines.map((line) => line.split(" ")[0]), ["ERROR"]);
});

Deno.test("a partial or failed sync is no evidence that changes have stopped", async () => {
  const { lines, compare } = setUp([KUBE_PROXY]);
  await compare(3);
  await compare(1);
  await compare(0, { full: false, afterMs: 30_000 });
  await compare(0, { ok: false, afterMs: 30_000 });
  assert.deepEqual(lines.map((line) => line.split(" ")[0]), ["ERROR"]);
});

Deno.test("a comparison without changes some time after the last one resolves the problem, and it can recur", async () => {
  const { lines, compare } = setUp([KUBE_PROXY]);
  await compare(1);
  await compare(1);
  await compare(0, { afterMs: 9_999 });
  assert.equal(lines.length, 1);
  await compare(0, { afterMs: 1 });
  await compare(1);
  assert.equal(lines.length, 2);
  await compare(1);
  assert.deepEqual(lines.map((line) => line.split(" ")[0]), ["ERROR", "INFO", "ERROR"]);
});

Deno.test("changes that ended before the other program was found are no problem any more", async () => {
  const found = Promise.withResolvers<readonly Neighbour[]>();
  const { lines, compare } = setUp(found.promise);
  await compare(3);
  await compare(2);
  await compare(0, { afterMs: 10_000 });
  found.resolve([KUBE_PROXY]);
  await settled();
  assert.deepEqual(lines, []);
});
