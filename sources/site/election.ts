/** Takes part in the election of a site's leader: carries out the elector's decisions, and reports this node's role. */
import { follow } from "./election_follow.ts";
import { openLan } from "./election_lan.ts";
import { acquire, read, renew } from "./election_lease.ts";
import { createElectionState, decideRole, type ElectionOptions, type ElectionState, isHeld } from "./election_state.ts";
import type { Role } from "./role.ts";

/** A node's part in the election of its site. */
export interface Election {
  /** The leader does not answer: reads the Lease, and takes it when it has ended. */
  lost(): void;
  /** The leader answers. */
  followed(): void;
  role(): Role;
  /** How often the leader has changed, as the Lease counts. */
  transitions(): number;
  /** Whether this node believes to hold the Lease at this moment. */
  holds(): boolean;
  /** Runs until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

/** How long a former leader waits for the answer of another one before it leads again. */
const ANSWER_MS = 1_500;

/** Creates an election in which this node plays no part yet. */
export function createElection(options: ElectionOptions): Election {
  const state = createElectionState(options);
  openLan(state);
  return {
    lost() {
      if (state.isLost) return;
      state.isLost = state.isInDoubt = true;
      if (state.role.kind === "follower") state.wake();
    },
    followed() {
      if (!state.isLost) return;
      state.isLost = false;
      if (state.role.kind === "follower") state.wake();
    },
    role: () => state.role,
    transitions: () => state.transitions,
    holds: () => isHeld(state),
    run: (signal) => run(state, signal),
  };
}

async function run(state: ElectionState, signal: AbortSignal): Promise<void> {
  const { lan, options: { node, memory, clock } } = state;
  const onAbort = () => state.wake();
  let cancel = () => {};
  signal.addEventListener("abort", onAbort);
  try {
    // Another node may lead since this one did: its answer comes first, unless there is none in time.
    const isFormerLeader = memory.leader()?.node === node;
    if (lan !== undefined && isFormerLeader) cancel = clock.schedule(ANSWER_MS, () => decideRole(state));
    else decideRole(state);
    await Promise.all([lan?.run(signal), takePart(state, signal)]);
  } finally {
    cancel();
    signal.removeEventListener("abort", onAbort);
  }
}

async function takePart(state: ElectionState, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) await step(state, signal);
}

async function step(state: ElectionState, signal: AbortSignal): Promise<void> {
  const next = state.elector.next(state.options.clock.monotonic());
  if (next.kind === "read") return await read(state, signal);
  if (next.kind === "acquire") return await acquire(state, next, signal);
  if (next.kind === "renew") return await renew(state, next, signal);
  await follow(state, next, signal);
}
