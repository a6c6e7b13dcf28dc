/** Changes by others that come back, and who is named for them. */
import assert from "node:assert/strict";
import type { Family, SyncReport } from "../../../core/model/mod.ts";
import { createDriftWatch } from "../../../observe/drift_watch.ts";
import type { Neighbour } from "../../../observe/neighbours.ts";
import { createLogger } from "../../../platform/log.ts";
import { createFakeClock, settled } from "../../fakes/clock.ts";

function setUp(neighbours: readonly Neighbour[]) {
  const lines: string[] = [];
  const write = (line: string) => lines.push(line.replace(/^\S+ /, "").trim());
  const logger = createLogger({ level: "info", format: "text", clock: createFakeClock(), write });
  const watch = createDriftWatch({ findNeighbours: () => Promise.resolve(neighbours), logger });
  const compare = async (repaired: number, fields: Partial<SyncReport> = {}) => {
    const report = { family: "IPv4" as Family, revision: 1, ok: true, full: true, endedAtMs: 0, durationMs: 1 };
    watch.report({ ...report, problems: [], figures: { drift_repaired: repaired }, ...fields });
    await settled();
  };
  return { lines, compare };
}

const KUBE_PROXY: Neighbour = { kind: "kube-proxy", answersOn: "127.0.0.1:10249/proxyMode" };
const OTHER: Neighbour = { kind: "like kube-proxy", answersOn: "127.0.0.1:10256/healthz" };
const SELF: Neighbour = { kind: "Sluice", answersOn: "127.0.0.1:10256/healthz" };

for (
  const [neighbours, line] of [
    [
      [SELF, KUBE_PROXY],
      "WARN  kube-proxy keeps changing the rules of services on this node; stop it family=IPv4 " +
      "answersOn=127.0.0.1:10249/proxyMode",
    ],
    [
      [OTHER],
      "WARN  a proxy that answers as kube-proxy does keeps changing the rules of services on this node; stop it " +
      "family=IPv4 answersOn=127.0.0.1:10256/healthz",
    ],
    [
      [SELF],
      "WARN  another program keeps changing the rules of services; sluice check looks for other proxies family=IPv4",
    ],
  ] as const
) {
  Deno.test(`changes that come back are told once: ${line.slice(6, 40)}`, async () => {
    const { lines, compare } = setUp(neighbours);
    await compare(3);
    assert.deepEqual(lines, []);
    for (let round = 0; round < 3; round++) await compare(2);
    assert.deepEqual(lines, [line]);
  });
}

Deno.test("changes that were made once are no news, in each family by itself", async () => {
  const { lines, compare } = setUp([KUBE_PROXY]);
  await compare(3);
  await compare(0);
  await compare(3, { family: "IPv6" });
  await compare(1);
  assert.deepEqual(lines, []);
});

Deno.test("a sync that did not look at everything, or failed, says nothing against a change", async () => {
  const { lines, compare } = setUp([KUBE_PROXY]);
  await compare(3);
  await compare(0, { full: false });
  await compare(0, { ok: false });
  await compare(1);
  assert.equal(lines.length, 1);
});

Deno.test("after a comparison without changes, they are told again", async () => {
  const { lines, compare } = setUp([KUBE_PROXY]);
  for (const repaired of [1, 1, 0, 1, 1]) await compare(repaired);
  assert.equal(lines.length, 2);
});
