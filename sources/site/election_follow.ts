/** Follows the leader of a site, and succeeds one that does not answer. */
import type { Candidacy } from "./candidacy.ts";
import { isOnLan } from "./election_lan.ts";
import { learn } from "./election_lease.ts";
import { type ElectionState, pause, pauseFully, setRole, spreadMs } from "./election_state.ts";
import type { ElectionStep } from "./elector.ts";

/** The mean time between two questions of a node that has lost its leader. */
const ASK_MS = 1_000;
/** How long before the end of the Lease one node connects to the API server, at most a third of the Lease. */
const PREPARE_MS = 10_000;
/** The share of the Lease's duration over which followers read it after they have lost their leader. */
const LOST_SHARE = 1 / 3;

/** Follows a leader until it does not answer; then waits for the end of its Lease, and has it read again. */
export async function follow(
  state: ElectionState,
  { leader, untilMs }: Extract<ElectionStep, { kind: "follow" }>,
  signal: AbortSignal,
): Promise<void> {
  const { elector, candidacy, options: { memory, clock } } = state;
  const { node, address, certificate } = leader;
  memory.remember({ node, address, certificate });
  setRole(state, { kind: "follower", leader: { node, address, certificate }, isConfirmed: true });
  if (!state.isLost && !(state.isInDoubt && isOnLan(state))) return await followLiving(state, signal);
  if (candidacy !== undefined && isOnLan(state)) return await succeed(state, candidacy, untilMs, signal);
  const waitMs = untilMs - clock.monotonic() + spreadMs(state);
  await pause(state, waitMs, signal);
  state.isSpread = state.isLost;
  elector.forget();
}

/** Follows a leader that answers, up to the moment at which it does not. */
async function followLiving(state: ElectionState, signal: AbortSignal): Promise<void> {
  const { elector, random, options: { timing } } = state;
  state.isSpread = false;
  state.candidacy?.rest();
  await pause(state, undefined, signal);
  if (isOnLan(state)) return;
  // All nodes lose their leader at the same moment, and must know the Lease only by its end.
  await pauseFully(state, random() * timing.leaseMs * LOST_SHARE, signal);
  elector.forget();
}

/**
 * Follows a leader that does not answer, up to the end of its Lease. The line stays unused until one node, whose turn it is, reads
 * the Lease shortly before, so that its connection is open and the version is known when it may take the Lease.
 */
async function succeed(
  state: ElectionState,
  candidacy: Candidacy,
  untilMs: number,
  signal: AbortSignal,
): Promise<void> {
  const { elector, random, options: { clock, timing, onStandBy } } = state;
  const prepareMs = untilMs - Math.min(PREPARE_MS, timing.leaseMs / 3);
  if (clock.monotonic() < prepareMs) {
    candidacy.rest();
    const found = await candidacy.ask(false, signal);
    if (found !== undefined) learn(state, found);
    return await pause(state, Math.min(prepareMs - clock.monotonic(), ASK_MS * (0.5 + random())), signal);
  }
  if (candidacy.hasTurn()) {
    if (state.isLost) onStandBy?.();
    return await pause(state, untilMs - clock.monotonic(), signal);
  }
  const found = await candidacy.find(false, () => !state.isInDoubt, signal);
  if (found !== undefined) learn(state, found);
  else if (state.isInDoubt) elector.forget();
}
