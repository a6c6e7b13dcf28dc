/**
 * Takes part in the election of a site's leader; `createElector` makes the decisions. This code only decides when to send
 * requests: a follower sends none until its leader is lost.
 */
import { type Backoff, type ClockAndLogger, createBackoff, errorText } from "../../platform/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import { ApiError, type ApiErrorKind } from "../../core/objects/mod.ts";
import {
  afterAnswer,
  afterLoss,
  afterRound,
  afterWatch,
  calmUnlessLost,
  type ElectionState,
  FIRST_STATE,
  isSuccessor,
  rememberedRole,
  withRole,
} from "./election_state.ts";
import { createElector, type ElectionStep } from "./elector.ts";
import type { Leader, LeaseClient, LeaseRecord, Role } from "./lease.ts";
import type { SiteMemory } from "./memory.ts";

/** The times of an election, in milliseconds. */
export interface ElectionTiming {
  readonly leaseMs: number;
  readonly renewMs: number;
  /** The reads of the nodes that lose a leader are spread over this time; 1 s by default. */
  readonly spreadMs?: number;
}

const SPREAD_MS = 1_000;
const RETRY = { firstMs: 1_000, longestMs: 5_000 };
const REREAD = { firstMs: 2_000, longestMs: 30_000 };
/** A leader is no longer confirmed after this share of its Lease without a renewal (client-go: RenewDeadline). */
const DEADLINE_SHARE = 2 / 3;
/** The time before the end of the Lease at which its successor connects to the API server, as a share of the Lease. */
const PREPARE_SHARE = 1 / 3;
/** How often a leader, or a node that is no member, reads the members of its site. */
const MEMBERS_MS = 60_000;
/** The nodes of a site may start at the same moment: their first reads are spread over this multiple of the spread. */
const START_SPREADS = 2;
/** The maximum time until a follower that cannot reach the holder of the Lease reads the Lease again. */
const LONGEST_ROUND_MS = 60_000;

const SCOPE = "site lease";

/** Errors with an answer of the API server: the Lease cannot be used, but the API server can be watched. */
const ANSWERED: readonly ApiErrorKind[] = ["unauthorized", "forbidden", "not-found", "rejected", "garbled"];

/** A node's part in the election of its site. */
export interface Election {
  /** Called when the leader does not answer: reads the Lease, and takes it when it has expired. */
  lost(): void;
  followed(): void;
  role(): Role;
  /** How often the leader has changed, as the Lease counts. */
  transitions(): number;
  /** Whether this node believes that it holds the Lease. */
  holds(): boolean;
  run(signal: AbortSignal): Promise<void>;
}

interface ElectionOptions extends ClockAndLogger {
  readonly node: string;
  readonly lease: LeaseClient;
  readonly memory: Pick<SiteMemory, "leader" | "remember">;
  /** This node as a leader, with its server's address, certificate and proof. */
  readonly self: (signal: AbortSignal) => Promise<Leader>;
  /** Whether the node that the Lease names as the leader has signed the claim. Rejects if the certificates cannot be read. */
  readonly isProven: (leader: Leader) => Promise<boolean>;
  readonly timing: ElectionTiming;
  readonly onRole: (role: Role) => void;
  /** The Lease expires soon, and it is this node's turn to take it: it can prepare to lead. */
  readonly onStandBy: () => void;
  /** Receives the members of the site when they have been read, before a role that depends on them. */
  readonly onMembers: (members: readonly string[]) => void;
  readonly onProblems: ReportProblems;
  /** A number from 0 up to 1; Math.random by default. */
  readonly random?: () => number;
}

/** Creates an election in which this node does not take part yet. */
export function createElection(options: ElectionOptions): Election {
  const { node, timing, random = Math.random } = options;
  const part: Part = {
    ...timing,
    spreadMs: timing.spreadMs ?? SPREAD_MS,
    ...options,
    random,
    elector: createElector({ node, renewMs: timing.renewMs }),
    retries: createBackoff({ ...RETRY, random }),
    rereads: createBackoff({ ...REREAD, random }),
    signal: AbortSignal.abort(),
    state: FIRST_STATE,
    wake() {},
  };
  return {
    lost() {
      if (part.state.isLost) return;
      part.state = afterLoss(part.state, node, part, part.clock.monotonic(), random());
      if (part.state.role.kind === "follower") part.wake();
    },
    followed() {
      const { isLost, role } = part.state;
      part.state = afterAnswer(part.state);
      if (isLost && role.kind === "follower") part.wake();
    },
    role: () => part.state.role,
    transitions: () => part.state.transitions,
    holds: () => isHeldFor(part, 1),
    run: (signal) => takePart(Object.assign(part, { signal })),
  };
}

/** A node's part in the election: its state, and what it needs to act. */
interface Part extends ElectionOptions, Required<ElectionTiming> {
  readonly random: () => number;
  readonly elector: ReturnType<typeof createElector>;
  readonly retries: Backoff;
  readonly rereads: Backoff;
  /** Ends the part that this node takes. */
  signal: AbortSignal;
  state: ElectionState;
  wake(): void;
}

type Step<Kind extends ElectionStep["kind"]> = Extract<ElectionStep, { readonly kind: Kind }>;

async function takePart(part: Part): Promise<void> {
  const { signal, node, memory, elector, clock, random, spreadMs } = part;
  const onAbort = () => part.wake();
  signal.addEventListener("abort", onAbort);
  try {
    setRole(part, rememberedRole(node, memory.leader()));
    // All nodes of a site may start at the same moment.
    const startMs = clock.monotonic() + START_SPREADS * random() * spreadMs;
    if (part.state.role.kind !== "leader") await pauseFully(part, startMs);
    while (!signal.aborted) {
      const next = elector.next(clock.monotonic());
      if (next.kind === "read") await read(part);
      else if (next.kind === "acquire") await acquire(part, next);
      else if (next.kind === "renew") await renew(part, next);
      else await follow(part, next);
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

function setRole(part: Part, role: Role): void {
  const before = part.state.role;
  part.state = withRole(part.state, role);
  if (part.state.role !== before) part.onRole(role);
}

function isHeldFor({ elector, clock, leaseMs }: Part, share: number): boolean {
  const untilMs = elector.heldUntilMs();
  return untilMs !== undefined && clock.monotonic() < untilMs - (1 - share) * leaseMs;
}

/** Waits until a time, or until something happens if it is undefined. Ends early when the leader is lost or returns. */
function pause(part: Part, untilMs: number | undefined): Promise<void> {
  const { clock, signal } = part;
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const ms = untilMs === undefined ? undefined : Math.max(0, untilMs - clock.monotonic());
    const cancel = ms === undefined ? () => {} : clock.schedule(ms, () => part.wake());
    part.wake = () => {
      cancel();
      part.wake = () => {};
      resolve();
    };
  });
}

/** Waits while `isWanted` holds, but no longer than until a time. */
async function pauseWhile(part: Part, isWanted: () => boolean, untilMs: number): Promise<void> {
  const { clock, signal } = part;
  while (!signal.aborted && isWanted() && clock.monotonic() < untilMs) await pause(part, untilMs);
}

function pauseFully(part: Part, untilMs: number): Promise<void> {
  return pauseWhile(part, () => true, untilMs);
}

/** Waits after a failed request, the longer the more have failed; less long if this node leads. */
function pauseAfterFailure(part: Part): Promise<void> {
  const { retries, rereads, clock, state } = part;
  return pause(part, clock.monotonic() + (state.role.kind === "leader" ? retries : rereads).nextMs());
}

function noteSuccess(part: Part, { transitions }: LeaseRecord): void {
  part.state = { ...part.state, transitions, isWarned: false };
  part.onProblems(SCOPE, []);
  part.retries.reset();
  part.rereads.reset();
}

/** This node takes no part for now, and watches the API server. */
function stayAlone(
  part: Part,
  code: "site-lease-refused" | "site-not-member" | "site-leader-refused",
  detail: string,
): void {
  if (!part.state.isWarned) part.logger.warn("this node takes no part in its site", { reason: detail });
  part.state = { ...part.state, isWarned: true };
  part.onProblems(SCOPE, [{ code, subject: "the Lease of the site", detail }]);
  setRole(part, { kind: "alone" });
}

/** Without the Lease, the last leader stays: this node, or the stored leader. */
function fallBack(part: Part, failure: string, error: unknown): void {
  const { node, memory, logger, state: { role, isWarned } } = part;
  const detail = `${failure}: ${errorText(error)}`;
  // Any error that is not an ApiError is about this node's certificates.
  const isRefused = !(error instanceof ApiError) || ANSWERED.includes(error.kind);
  if (role.kind !== "leader" && isRefused) return stayAlone(part, "site-lease-refused", detail);
  logger[isWarned ? "debug" : "warn"](failure, { error: errorText(error) });
  part.state = { ...part.state, isWarned: true };
  const problem = { code: "site-lease-refused", subject: "the Lease of the site", detail } as const;
  part.onProblems(SCOPE, isRefused ? [problem] : []);
  if (role.kind !== "leader") setRole(part, rememberedRole(node, memory.leader()));
  else if (!isHeldFor(part, DEADLINE_SHARE)) setRole(part, { kind: "leader", isConfirmed: false });
}

async function readMembers(part: Part): Promise<readonly string[]> {
  const names = await part.lease.members(part.signal);
  part.state = { ...part.state, members: { names, atMs: part.clock.monotonic() } };
  part.onMembers(names);
  return names;
}

/** Whether a node is a member, by the last known members, or else by reading them now. */
async function isMember(part: Part, name: string): Promise<boolean> {
  return part.state.members?.names.includes(name) || (await readMembers(part)).includes(name);
}

async function read(part: Part): Promise<void> {
  const { node, lease, elector, clock, signal } = part;
  try {
    if (!await isMember(part, node)) {
      const members = part.state.members!.names.join(", ");
      stayAlone(part, "site-not-member", `${node} is not among the members of the site: ${members}`);
      return await pauseFully(part, clock.monotonic() + MEMBERS_MS);
    }
    const record = await lease.read(signal);
    elector.read(record, clock.monotonic());
  } catch (error) {
    if (signal.aborted) return;
    fallBack(part, "cannot read the Lease of the site", error);
    await pauseAfterFailure(part);
  }
}

/** Takes the Lease, after a while if it is another node's turn. */
async function acquire(part: Part, { record }: Step<"acquire">): Promise<void> {
  const { node, lease, elector, clock, random, leaseMs, spreadMs, signal, state } = part;
  const isWaiting = !state.hasWaited && state.role.kind !== "leader" && !isSuccessor(state, node, record.node);
  part.state = { ...state, hasWaited: isWaiting };
  if (isWaiting) {
    await pauseFully(part, clock.monotonic() + (START_SPREADS + random()) * spreadMs);
    return elector.forget();
  }
  await write(part, async () => {
    // A Lease that was never held has no term.
    const transitions = record.term === "" ? 0 : record.transitions + 1;
    const claim = { ...await part.self(signal), durationMs: leaseMs, transitions };
    return await lease.take(record.version, claim, signal);
  });
}

/** Renews the Lease when it is time; takes it if this process has not taken it yet, or the server of this node has changed. */
async function renew(part: Part, { record, atMs }: Step<"renew">): Promise<void> {
  const { node, lease, elector, clock, leaseMs, signal } = part;
  if (atMs > clock.monotonic()) return await pause(part, atMs);
  await write(part, async () => {
    const { members } = part.state;
    const isOld = members === undefined || clock.monotonic() - members.atMs >= MEMBERS_MS;
    const names = isOld ? await readMembers(part) : members.names;
    if (!names.includes(node)) return undefined;
    const claim = await part.self(signal);
    const isSame = record.address === claim.address && record.certificate === claim.certificate;
    const isOwnTerm = elector.heldUntilMs() !== undefined;
    if (isOwnTerm && isSame && record.durationMs === leaseMs) return await lease.renew(record.version, signal);
    return await lease.take(record.version, { ...claim, durationMs: leaseMs, transitions: record.transitions }, signal);
  });
}

/** Sends a write, and leads if it is accepted; `send` returns undefined if this node is not permitted to. */
async function write(part: Part, send: () => Promise<LeaseRecord | undefined>): Promise<void> {
  const { elector, memory, clock, signal } = part;
  const sentMs = clock.monotonic();
  try {
    const record = await send();
    if (record === undefined) return elector.forget();
    elector.wrote(record, sentMs);
    noteSuccess(part, record);
    memory.remember(record);
    setRole(part, { kind: "leader", isConfirmed: true });
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof ApiError && error.kind === "conflict") {
      part.state = calmUnlessLost(part.state);
      return elector.forget();
    }
    fallBack(part, "cannot write the Lease of the site", error);
    await pauseAfterFailure(part);
    // The write may have arrived although its answer did not.
    if (part.state.role.kind !== "leader") elector.forget();
  }
}

/** The reason for not following a leader; undefined if it is followed. */
async function objection(part: Part, leader: LeaseRecord): Promise<string | undefined> {
  if (!await isMember(part, leader.node)) {
    return `${leader.node}, which holds the Lease, is no member of the site`;
  }
  if (await part.isProven(leader)) return undefined;
  return `the certificate of ${leader.node} does not prove that it has written the Lease which names it`;
}

/** Follows a leader until it does not answer; then waits for the end of its Lease, and has it read again. */
async function follow(part: Part, { leader, untilMs }: Step<"follow">): Promise<void> {
  const { node, memory, elector, clock, rereads, signal } = part;
  const { node: name, address, certificate, proof } = leader;
  const known = { node: name, address, certificate, proof };
  try {
    const reason = await objection(part, leader);
    if (reason !== undefined) {
      stayAlone(part, "site-leader-refused", reason);
      await pauseFully(part, untilMs);
      return elector.forget();
    }
  } catch (error) {
    if (signal.aborted) return;
    fallBack(part, "cannot check the leader of the site", error);
    await pause(part, clock.monotonic() + rereads.nextMs());
    return elector.forget();
  }
  noteSuccess(part, leader);
  memory.remember(known);
  setRole(part, { kind: "follower", leader: known, isConfirmed: true });
  part.state = { ...part.state, hasWaited: false };
  await untilDue(part);
  const { watch } = part.state;
  if (watch.kind === "lost") {
    part.state = afterWatch(part.state, node, name);
    return elector.forget();
  }
  if (watch.kind === "waiting") await awaitEnd(part, leader, untilMs, watch.round);
}

/** Waits until the Lease must be read because the leader does not answer. */
async function untilDue(part: Part): Promise<void> {
  while (!part.signal.aborted) {
    const { watch } = part.state, dueMs = watch.kind === "lost" ? watch.dueMs : undefined;
    if (watch.kind === "waiting" || dueMs !== undefined && part.clock.monotonic() >= dueMs) return;
    await pause(part, dueMs);
  }
}

/** Waits for the end of a Lease whose holder was lost: its successor takes it then, the others read it again. */
async function awaitEnd(part: Part, { node: holder }: Leader, untilMs: number, round: number): Promise<void> {
  const { node, elector, clock, random, leaseMs, spreadMs } = part;
  part.state = afterRound(part.state, round);
  if (round === 0 && isSuccessor(part.state, node, holder)) {
    await pauseFully(part, untilMs - PREPARE_SHARE * leaseMs);
    if (part.state.isLost) part.onStandBy();
    return await pauseFully(part, untilMs);
  }
  const nextMs = clock.monotonic() + Math.min(round * leaseMs, LONGEST_ROUND_MS);
  const endMs = Math.max(untilMs, nextMs) + (1 + random()) * spreadMs;
  await pauseWhile(part, () => part.state.isLost, endMs);
  part.state = calmUnlessLost(part.state);
  elector.forget();
}
