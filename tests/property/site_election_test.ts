import assert from "node:assert/strict";
import fc from "fast-check";
import { createFakeClock } from "../fakes/clock.ts";
import { settleElections, startElectionNode } from "../fakes/election_node.ts";
import { createLeaseLines } from "../fakes/lease_line.ts";
import { seeded } from "../fakes/random.ts";
import { runs } from "./runs.ts";

const NODES = ["a", "b", "c", "d"];
/** How often every node is looked at. */
const STEP_MS = 250;

/** A fault of a node, or of the leader if `node` is undefined: its line is cut for `cutMs`, or it restarts if that is 0. */
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
    fc.asyncProperty(
      fc.array(happening, { maxLength: 10 }),
      fc.integer(),
      share,
      async (happenings, seed, share) => {
        let broken = share;
        const clock = createFakeClock();
        const random = seeded(seed);
        const lines = createLeaseLines(clock, NODES);
        const nodes = NODES.map((name) => {
          const line = lines.open(random);
          return Object.assign(startElectionNode(name, line.client, { clock, random }), { line });
        });

        const pass = async (ms: number) => {
          for (let left = ms; left > 0; left -= STEP_MS) {
            clock.advance(Math.min(left, STEP_MS));
            await settleElections();
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
          if (cutMs === 0) chosen.restart(random() < 0.5 ? "kept" : "lost");
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
        const followed = () =>
          nodes.map(({ name, election }) => {
            const role = election.role();
            return role.kind === "follower" ? role.leader.node : role.kind === "leader" ? name : role.kind;
          });
        const agree = () => followed().every((leader) => leader === lines.current().node);
        // A line that answers late may cost a leader its Lease at any time.
        for (let minute = 0; minute < 10 && !agree(); minute++) await pass(60_000);
        assert.deepEqual(new Set(followed()), new Set([lines.current().node]));
        for (const node of nodes) node.stop();
      },
    ),
    runs(40),
  );
});
