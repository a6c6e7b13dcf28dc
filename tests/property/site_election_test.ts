import assert from "node:assert/strict";
import fc from "fast-check";
import { silentLogger } from "../../platform/log.ts";
import { createElection, type Election } from "../../sources/site/election.ts";
import type { Leader } from "../../sources/site/lease.ts";
import { createFakeClock, type FakeClock } from "../fakes/clock.ts";
import { createLeaseLines, type LeaseLine } from "../fakes/lease_line.ts";
import { runs } from "./runs.ts";

const TIMING = { leaseMs: 30_000, renewMs: 10_000 };
const NODES = ["a", "b", "c", "d"];
/** How often every node is looked at. */
const STEP_MS = 250;

/** A pseudo-random sequence (mulberry32), so that a failing case repeats. */
function sequence(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Lets the nodes react to what has arrived: only promises are involved. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 30; turn++) await Promise.resolve();
}

/** A node of the site. */
interface SiteNode {
  readonly name: string;
  readonly line: LeaseLine;
  election: Election;
  stop(): void;
  /** Starts again with what it remembers on disk. */
  restart(): void;
}

function startNode(name: string, line: LeaseLine, clock: FakeClock, random: () => number): SiteNode {
  let remembered: Leader | undefined;
  const start = () => {
    const ended = new AbortController();
    // Monotonic clocks of nodes have nothing in common but their rate.
    const offsetMs = random() * 1e6;
    const election = createElection({
      node: name,
      lease: line.client,
      memory: { leader: () => remembered, remember: (leader) => remembered = leader },
      self: () => Promise.resolve({ node: name, address: `${name}:12091`, certificate: "" }),
      timing: TIMING,
      onRole: () => {},
      onProblems: () => {},
      clock: { ...clock, monotonic: () => clock.monotonic() + offsetMs },
      logger: silentLogger,
      random,
    });
    void election.run(ended.signal);
    return { election, stop: () => ended.abort(new Error("stopped")) };
  };
  let running = start();
  return {
    name,
    line,
    election: running.election,
    stop: () => running.stop(),
    restart() {
      running.stop();
      running = start();
      this.election = running.election;
    },
  };
}

/** What happens to a node, or to the leader if `node` is undefined: its line is cut for `cutMs`, or it restarts if that is 0. */
interface Happening {
  readonly afterMs: number;
  readonly node: number | undefined;
  readonly cutMs: number;
}

const happening: fc.Arbitrary<Happening> = fc.record({
  afterMs: fc.nat(60_000),
  node: fc.option(fc.nat(NODES.length - 1), { nil: undefined, freq: 1 }),
  cutMs: fc.oneof(fc.constant(0), fc.integer({ min: 20_000, max: 120_000 })),
});

/** The share of the time for which followers cannot connect to their leader. */
const share = fc.constantFrom(0, 0.2, 1);

Deno.test("never do two nodes believe to hold the Lease, and once all lines work, all follow one leader", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(happening, { maxLength: 10 }), fc.integer(), share, async (happenings, seed, share) => {
      let broken = share;
      const clock = createFakeClock();
      const random = sequence(seed);
      const lines = createLeaseLines(clock);
      const nodes = NODES.map((name) => startNode(name, lines.open(random), clock, random));

      const pass = async (ms: number) => {
        for (let left = ms; left > 0; left -= STEP_MS) {
          clock.advance(Math.min(left, STEP_MS));
          await settle();
          const holders = nodes.filter(({ election }) => election.holds()).map(({ name }) => name);
          assert.ok(holders.length <= 1, `${holders.join(" and ")} believe to hold the Lease`);
          for (const { election } of nodes) {
            const role = election.role();
            if (role.kind !== "follower") continue;
            const leader = nodes.find(({ name }) => name === role.leader.node)!;
            // The connection to the leader breaks now and then, or all the time.
            const isBroken = random() < broken || leader.election.role().kind !== "leader";
            if (isBroken) election.lost();
            else election.followed();
          }
        }
      };

      for (const { node, afterMs, cutMs } of happenings) {
        await pass(afterMs);
        const leader = nodes.findIndex(({ election }) => election.role().kind === "leader");
        const chosen = nodes[node ?? Math.max(0, leader)]!;
        if (cutMs === 0) chosen.restart();
        else {
          chosen.line.isCut = true;
          clock.schedule(cutMs, () => chosen.line.isCut = false);
        }
      }
      await pass(120_000);
      for (const { line } of nodes) line.isCut = false;
      // The followers of a leader without a Lease read it when that one closes their connections.
      broken = 0;
      for (const { election } of nodes) election.lost();
      await pass(240_000);
      const holder = lines.current()?.node;
      const followed = nodes.map(({ name, election }) => {
        const role = election.role();
        return role.kind === "follower" ? role.leader.node : role.kind === "leader" ? name : role.kind;
      });
      assert.deepEqual(new Set(followed), new Set([holder]));
      for (const node of nodes) node.stop();
    }),
    runs(40),
  );
});
