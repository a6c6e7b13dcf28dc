/** The state of a node's part in the election of its site, its waits, and its changes of role. */
import { type Backoff, type Clock, createBackoff, type Logger } from "../../platform/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import type { Candidacy } from "./candidacy.ts";
import { createElector, type Elector } from "./elector.ts";
import type { Lan } from "./lan.ts";
import type { LanOptions } from "./lan_state.ts";
import type { Leader, LeaseClient } from "./lease.ts";
import type { SiteMemory } from "./memory.ts";
import { type Role, sameRole } from "./role.ts";

/** The times of an election, in milliseconds. */
export interface ElectionTiming {
  /** How long the Lease lasts without a renewal. */
  readonly leaseMs: number;
  readonly renewMs: number;
  /** The requests of the candidates are spread over this time: all notice at once that a leader is gone. 2 s by default. */
  readonly spreadMs?: number;
}

/** Options of `createElection`. */
export interface ElectionOptions {
  readonly node: string;
  readonly lease: LeaseClient;
  readonly memory: Pick<SiteMemory, "leader" | "remember">;
  /** This node as a leader, with the address and certificate of its server. */
  readonly self: (signal: AbortSignal) => Promise<Leader>;
  /** Opens the LAN, on which the nodes find each other without the API server. */
  readonly openLan?: (part: Pick<LanOptions, "answer" | "isNews" | "onRenewed">) => Lan;
  readonly timing: ElectionTiming;
  /** Receives every new role. */
  readonly onRole: (role: Role) => void;
  /** The Lease ends soon, and it is this node's turn to take it: it may get ready to lead. */
  readonly onStandBy?: () => void;
  readonly onProblems: ReportProblems;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A number from 0 up to 1; Math.random by default. */
  readonly random?: () => number;
}

/** The state of a node's part in the election. */
export interface ElectionState {
  readonly options: ElectionOptions;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  readonly elector: Elector;
  /** The waits of a leader whose renewals fail. */
  readonly retries: Backoff;
  /** The waits of other nodes that cannot read the Lease. */
  readonly rereads: Backoff;
  /** The other nodes, and this node's turn among them; both undefined if they do not find each other on the LAN. */
  lan: Lan | undefined;
  candidacy: Candidacy | undefined;
  role: Role;
  /** How often the leader has changed, as the Lease counts. */
  transitions: number;
  /** Whether the leader does not answer. */
  isLost: boolean;
  /** Whether the leader has failed, and has not shown since that it holds the Lease: it may still serve although it does not. */
  isInDoubt: boolean;
  /** Whether this candidate has waited its share of the spread since the Lease ended. */
  isSpread: boolean;
  /** Whether this outage of the Lease has been logged. */
  isWarned: boolean;
  /** Ends the current wait. */
  wake: () => void;
}

const SPREAD_MS = 2_000;
const RETRY: { readonly firstMs: number; readonly longestMs: number } = { firstMs: 1_000, longestMs: 5_000 };
const REREAD: { readonly firstMs: number; readonly longestMs: number } = { firstMs: 2_000, longestMs: 30_000 };
/** A leader is no longer confirmed after this share of its Lease without a renewal (client-go: RenewDeadline). */
const DEADLINE_SHARE = 2 / 3;

/** Creates the state of a node that plays no part yet, without the LAN. */
export function createElectionState(options: ElectionOptions): ElectionState {
  const { node, timing, random = Math.random } = options;
  return {
    options,
    random,
    elector: createElector({ node, renewMs: timing.renewMs }),
    retries: createBackoff({ ...RETRY, random }),
    rereads: createBackoff({ ...REREAD, random }),
    lan: undefined,
    candidacy: undefined,
    role: { kind: "undecided" },
    transitions: 0,
    isLost: false,
    isInDoubt: false,
    isSpread: false,
    isWarned: false,
    wake: () => {},
  };
}

/** Whether this node believes to hold the Lease at this moment. */
export function isHeld(state: ElectionState): boolean {
  return isHeldFor(state, 1);
}

/** Whether this node holds the Lease, and has renewed it within the deadline. */
export function isConfirmed(state: ElectionState): boolean {
  return isHeldFor(state, DEADLINE_SHARE);
}

/** Whether this node holds the Lease, and not more than this share of its duration has passed since the last renewal. */
function isHeldFor({ elector, options: { clock, timing } }: ElectionState, share: number): boolean {
  const untilMs = elector.heldUntilMs();
  return untilMs !== undefined && clock.monotonic() < untilMs - (1 - share) * timing.leaseMs;
}

/** Enters a role, and reports it if it is another one. */
export function setRole(state: ElectionState, next: Role): void {
  const { role } = state;
  if (sameRole(next, role)) return;
  const isNewLeader = next.kind === "follower" && role.kind === "follower" && next.leader.node !== role.leader.node;
  if (next.kind !== role.kind || isNewLeader) state.isLost = state.isInDoubt = false;
  state.role = next;
  state.options.onRole(next);
}

/** The role without the Lease: the last leader stays, which is this node or the one that it remembers. */
export function rememberedRole({ options: { node, memory }, candidacy }: ElectionState): Role {
  const own = memory.leader();
  const leader = own?.node === node ? own : candidacy?.lastLeader() ?? own;
  if (leader === undefined) return { kind: "undecided" };
  return leader.node === node
    ? { kind: "leader", isConfirmed: false }
    : { kind: "follower", leader, isConfirmed: false };
}

/** Enters the role of a node without the Lease if it has none yet. */
export function decideRole(state: ElectionState): void {
  if (state.role.kind === "undecided") setRole(state, rememberedRole(state));
}

/** Waits, or until something happens if `ms` is undefined. Ends early when the leader is lost or the run ends. */
export function pause(state: ElectionState, ms: number | undefined, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const cancel = ms === undefined ? () => {} : state.options.clock.schedule(ms, () => state.wake());
    state.wake = () => {
      cancel();
      state.wake = () => {};
      resolve();
    };
  });
}

/** Waits, whatever happens meanwhile, unless the run ends. */
export async function pauseFully(state: ElectionState, ms: number, signal: AbortSignal): Promise<void> {
  const { clock } = state.options;
  const untilMs = clock.monotonic() + ms;
  while (!signal.aborted && clock.monotonic() < untilMs) await pause(state, untilMs - clock.monotonic(), signal);
}

/** Returns a random wait within the spread of the candidates, in milliseconds. */
export function spreadMs({ random, options: { timing } }: ElectionState): number {
  return random() * (timing.spreadMs ?? SPREAD_MS);
}
