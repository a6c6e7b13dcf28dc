import assert from "node:assert/strict";
import { createSitePart, type SiteStatus } from "../../../../features/site/part.ts";
import type { Role } from "../../../../features/site/lease.ts";
import { createLogger } from "../../../../platform/log.ts";
import { createRegistry } from "../../../../platform/metrics/mod.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { featureNode } from "../../../fakes/feature_node.ts";

/** A part that runs on node `b`, with what it shows and records. */
function start() {
  const clock = createFakeClock(), logged: string[] = [];
  const write = (line: string) => void logged.push(line.slice(25).trimEnd());
  const logger = createLogger({ level: "info", format: "text", clock, write });
  const part = createSitePart("north", { nodeName: "b", clock, logger });
  const events: string[] = [];
  const recordEvent = (reason: string, _subject: string, message: string) => void events.push(`${reason}: ${message}`);
  const running = part.startRun(featureNode({ tracking: undefined as never, recordEvent, clock }));
  const registry = createRegistry();
  running.addMetrics!(registry);
  const metrics = () => registry.expose().split("\n").filter((line) => line.startsWith("sluice_site_")).sort();
  return { ...part, clock, events, logged, metrics, status: running.status! };
}

const LEADER = { kind: "leader", isConfirmed: true } as const;
const follower = (isConfirmed: boolean): Role => {
  const leader = { node: "a", address: "10.0.0.1:12091", certificate: "", proof: "" };
  return { kind: "follower", leader, isConfirmed };
};

Deno.test("a node says which part it has in its site, and why that is not in order", () => {
  const words = (role: Role, from: SiteStatus["from"]) => {
    const { clock, enter, status } = start();
    enter(role, from, 1);
    clock.advance(60_000);
    const { tone, words, reason } = status()!;
    return `${tone}: ${words}${reason === undefined ? "" : ` (${reason})`}`;
  };
  const following = "north: follower of a (grpc://10.0.0.1:12091) for 60 s";
  assert.equal(start().status(), undefined);
  assert.equal(words(follower(true), "leader"), `good: ${following}`);
  assert.equal(words(follower(false), "leader"), `warning: ${following} (its Lease cannot be read or renewed)`);
  assert.equal(
    words(follower(true), "api"),
    `warning: ${following} (it does not answer, so the API server is watched)`,
  );
  assert.equal(words(LEADER, "api"), "good: north: leader for 60 s");
  assert.equal(words({ kind: "undecided" }, "api"), "warning: north: no leader is known for 60 s");
  assert.equal(words({ kind: "alone" }, "api"), "warning: north: alone for 60 s (its Lease cannot be used)");
});

Deno.test("this node's part in its site is a metric once it is known", () => {
  const { enter, metrics } = start();
  assert.deepEqual(metrics(), []);
  enter({ kind: "leader", isConfirmed: false }, "api", 3);
  assert.deepEqual(metrics(), [
    'sluice_site_leader_changes{site="north"} 3',
    'sluice_site_leader{site="north"} 1',
    'sluice_site_lease_confirmed{site="north"} 0',
  ]);
});

Deno.test("a node records an Event when it begins to lead with its Lease, and not when it only loses it", () => {
  const { enter, events } = start();
  enter({ kind: "leader", isConfirmed: false }, "api", 0);
  assert.deepEqual(events, []);
  enter(LEADER, "api", 0);
  enter({ kind: "leader", isConfirmed: false }, "api", 0);
  enter(LEADER, "api", 0);
  enter(follower(true), "leader", 1);
  enter(LEADER, "api", 2);
  assert.deepEqual(events, [
    "SiteLeader: this node watches the API server for site north (leader number 1)",
    "SiteLeader: this node watches the API server for site north (leader number 3)",
  ]);
});

Deno.test("each part of a node in its site is logged, and one that is not in order is a warning", () => {
  const { enter, logged } = start();
  enter(LEADER, "api", 0);
  enter({ kind: "leader", isConfirmed: false }, "api", 0);
  enter(follower(true), "leader", 0);
  enter(follower(false), "leader", 0);
  enter({ kind: "alone" }, "api", 0);
  assert.deepEqual(logged, [
    "INFO  leading the site site=north",
    "WARN  leading the site without its Lease: the API server cannot be reached site=north",
    "INFO  following the leader of the site site=north leader=a address=10.0.0.1:12091",
    "WARN  following the last leader of the site: its Lease cannot be read site=north leader=a address=10.0.0.1:12091",
    "WARN  no Lease for the site, watching the API server site=north",
  ]);
});
