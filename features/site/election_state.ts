import { sameData } from "../../platform/mod.ts";
import type { Leader, Role } from "./lease.ts";

/** The state of a node in the election of its site; immutable. */
export interface ElectionState {
  readonly role: Role;
  /** How often the leader has changed, as the Lease counts. */
  readonly transitions: number;
  /** The members of the site, and when they were read; undefined if they must be read. */
  readonly members: { readonly names: readonly string[]; readonly atMs: number } | undefined;
  readonly watch: Watch;
  /** Whether the leader does not answer at this moment. */
  readonly isLost: boolean;
  /** Whether the leader has answered since it is this node's leader. */
  readonly hasAnswered: boolean;
  /** Whether this node has waited for the node whose turn it is to take the Lease. */
  readonly hasWaited: boolean;
  readonly isWarned: boolean;
}

/**
 * The leader of a follower: it answers; or it was lost, and the Lease will be read at `dueMs`; or the Lease was read since, and
 * its expiry is awaited for the `round`th time.
 */
type Watch =
  | { readonly kind: "calm" }
  | { readonly kind: "lost"; readonly dueMs: number }
  | { readonly kind: "waiting"; readonly round: number };

const CALM: Watch = { kind: "calm" };

/** The state of a node that takes no part yet. */
export const FIRST_STATE: ElectionState = {
  role: { kind: "undecided" },
  transitions: 0,
  members: undefined,
  watch: CALM,
  isLost: false,
  hasAnswered: false,
  hasWaited: false,
  isWarned: false,
};

/** The fixed numbers of an election, in milliseconds. */
interface ElectionTimes {
  readonly leaseMs: number;
  readonly spreadMs: number;
}

/** The time, in spreads, that a successor has to take a Lease that has ended, before the others read it. */
const TAKE_SPREADS = 1.5;

/** A role in the election; a new leader is watched from the start. */
export function withRole(state: ElectionState, role: Role): ElectionState {
  if (sameData(role, state.role)) return state;
  const isSameLeader = role.kind === "follower" && state.role.kind === "follower" &&
    role.leader.node === state.role.leader.node;
  return isSameLeader ? { ...state, role } : { ...state, role, watch: CALM, isLost: false, hasAnswered: false };
}

/** The role without the Lease: the last leader stays, either this node or the stored one. */
export function rememberedRole(node: string, leader: Leader | undefined): Role {
  if (leader === undefined) return { kind: "undecided" };
  return leader.node === node
    ? { kind: "leader", isConfirmed: false }
    : { kind: "follower", leader, isConfirmed: false };
}

/** Whether it is the turn of `node` to succeed a holder of the Lease: it is the next member by name. */
export function isSuccessor({ members }: ElectionState, node: string, holder: string): boolean {
  const names = members?.names ?? [];
  return (names.find((name) => name > holder) ?? names[0]) === node;
}

/**
 * The leader does not answer: the Lease is read once its successor has had time to take it, since it has nothing new for
 * the others before. A new leader may not serve yet.
 * @param random from 0 up to 1
 */
export function afterLoss(
  state: ElectionState,
  node: string,
  { leaseMs, spreadMs }: ElectionTimes,
  nowMs: number,
  random: number,
): ElectionState {
  const { role, watch, hasAnswered } = state;
  if (role.kind !== "follower" || watch.kind !== "calm") return { ...state, isLost: true };
  const waitMs = hasAnswered && isSuccessor(state, node, role.leader.node) ? 0 : leaseMs + TAKE_SPREADS * spreadMs;
  return { ...state, isLost: true, watch: { kind: "lost", dueMs: nowMs + waitMs + random * spreadMs } };
}

/** The leader answers. */
export function afterAnswer(state: ElectionState): ElectionState {
  const watch = state.watch.kind === "lost" && !state.hasAnswered ? CALM : state.watch;
  return { ...state, watch, isLost: false, hasAnswered: true };
}

/** The time to read the Lease of a lost leader has come; whoever does not succeed a leader that has returned stays calm. */
export function afterWatch(state: ElectionState, node: string, holder: string): ElectionState {
  const isWaiting = state.isLost || isSuccessor(state, node, holder);
  return { ...state, watch: isWaiting ? { kind: "waiting", round: 0 } : CALM, members: undefined };
}

/** Another round of waiting for the end of a lost leader's Lease begins. */
export function afterRound(state: ElectionState, round: number): ElectionState {
  return { ...state, watch: { kind: "waiting", round: round + 1 } };
}

/** The wait for the end of a Lease is over if its holder has returned. */
export function calmUnlessLost(state: ElectionState): ElectionState {
  return state.watch.kind === "waiting" && !state.isLost ? { ...state, watch: CALM } : state;
}
