/** Nodes that elect the leader of their site, on a fake clock and Lease. */
import { silentLogger } from "../../platform/log.ts";
import { createElection, type Election } from "../../features/site/election.ts";
import type { Leader, LeaseClient } from "../../features/site/lease.ts";
import type { FakeClock } from "./clock.ts";

/** The times of the elections. */
export const TIMING = { leaseMs: 10_000, renewMs: 4_000 };

/** The state that the nodes of a site share. */
export interface Surroundings {
  readonly clock: FakeClock;
  readonly random: () => number;
}

/** A node of the site. */
export interface ElectionNode {
  readonly name: string;
  election: Election;
  /** The roles that it has had since its last start. */
  roles: string[];
  /** The codes of its problems. */
  problems: readonly string[];
  /** How often it was told to get ready to lead. */
  standBys: number;
  stop(): void;
  /** Starts again with what it remembers on disk, or nothing. */
  restart(disk?: "kept" | "lost"): void;
}

/** Starts a node. */
export function startElectionNode(
  name: string,
  lease: LeaseClient,
  { clock, random }: Surroundings,
): ElectionNode {
  let remembered: Leader | undefined;
  const start = () => {
    const ended = new AbortController();
    // Monotonic clocks of nodes have nothing in common but their rate.
    const offsetMs = random() * 1e6;
    const ownClock = { ...clock, monotonic: () => clock.monotonic() + offsetMs };
    const election = createElection({
      node: name,
      lease,
      memory: { leader: () => remembered, remember: (leader) => remembered = leader },
      self: () => Promise.resolve({ node: name, address: `${name}:12091`, certificate: "", proof: name }),
      isProven: ({ node, proof }) => Promise.resolve(proof === node),
      timing: TIMING,
      onRole: ({ kind }) => node.roles.push(kind),
      onStandBy: () => node.standBys++,
      onMembers() {},
      onProblems: (_scope, list) => node.problems = list.map(({ code }) => code),
      clock: ownClock,
      logger: silentLogger,
      random,
    });
    void election.run(ended.signal);
    return { election, stop: () => ended.abort(new Error("stopped")) };
  };
  let running: ReturnType<typeof start>;
  const node: ElectionNode = {
    name,
    election: undefined as never,
    roles: [],
    problems: [],
    standBys: 0,
    stop: () => running.stop(),
    restart(disk = "kept") {
      running.stop();
      node.roles = [];
      if (disk === "lost") remembered = undefined;
      running = start();
      node.election = running.election;
    },
  };
  running = start();
  node.election = running.election;
  return node;
}

/** Lets the nodes react to what has arrived: only promises are involved. */
export async function settleElections(): Promise<void> {
  for (let turn = 0; turn < 30; turn++) await Promise.resolve();
}
