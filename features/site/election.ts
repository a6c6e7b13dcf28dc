/**
 * Takes part in the election of a site's leader; `createElector` makes the decisions. This code only decides when to send
 * requests: a follower sends none until its leader is lost.
 */
import { type Clock, createBackoff, errorText, type Logger, sameData } from "../../platform/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import { ApiError, type ApiErrorKind } from "../../core/objects/mod.ts";
import { createElector, type ElectionStep } from "./elector.ts";
import type { Leader, LeaseClient, LeaseRecord, Role } from "./lease.ts";
import type { SiteMemory } from "./memory.ts";

/** The times of an election, in milliseconds. */
export interface ElectionTiming {
  /** How long the Lease lasts without a renewal. */
  readonly leaseMs: number;
  readonly renewMs: number;
  /** The reads of the nodes that lose a leader are spread over this time; 1 s by default. */
  readonly spreadMs?: number;
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
const SPREAD_MS = 1_000;
const RETRY = { firstMs: 1_000, longestMs: 5_000 };
const REREAD = { firstMs: 2_000, longestMs: 30_000 };
/** A leader is no longer confirmed after this share of its Lease without a renewal (client-go: RenewDeadline). */
const DEADLINE_SHARE = 2 / 3;
/** How long before the end of the Lease its successor connects to the API server, as a share of the Lease. */
const PREPARE_SHARE = 1 / 3;
/** How often a leader, or a node that is no member, reads the members of its site. */
const MEMBERS_MS = 60_000;
/** The nodes of a site may start at the same moment: their first reads are spread over this multiple of the spread. */
const START_SPREADS = 2;
/** The time, in spreads, that a successor has to take a Lease that has ended, before the others read it. */
const TAKE_SPREADS = 1.5;
/** The maximum time until a follower that cannot reach the holder of the Lease reads the Lease again. */
const LONGEST_ROUND_MS = 60_000;

const SCOPE = "site lease";

/** Errors with an answer of the API server: the Lease cannot be used, but the API server can be watched. */
const ANSWERED: readonly ApiErrorKind[] = ["unauthorized", "forbidden", "not-found", "rejected", "garbled"];

/** A node's part in the election of its site. */
export interface Election {
  /** Called when the leader does not answer: reads the Lease, and takes it when it has expired. */
  lost(): void;
  /** The leader answers. */
  followed(): void;
  role(): Role;
  /** How often the leader has changed, as the Lease counts. */
  transitions(): number;
  /** Whether this node holds the Lease, as far as it knows. */
  holds(): boolean;
  /** Runs until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

/** Creates an election in which this node does not take part yet. */
export function createElection(options: {
  readonly node: string;
  readonly lease: LeaseClient;
  readonly memory: Pick<SiteMemory, "leader" | "remember">;
  /** This node as a leader, with its server's address, certificate and proof. */
  readonly self: (signal: AbortSignal) => Promise<Leader>;
  /** Whether the node that the Lease names as the leader has signed the claim. Rejects if the certificates cannot be read. */
  readonly isProven: (leader: Leader) => Promise<boolean>;
  readonly timing: ElectionTiming;
  /** Receives every new role. */
  readonly onRole: (role: Role) => void;
  /** The Lease expires soon, and it is this node's turn to take it: it can prepare to lead. */
  readonly onStandBy: () => void;
  /** Receives the members of the site when they have been read, before a role that depends on them. */
  readonly onMembers: (members: readonly string[]) => void;
  readonly onProblems: ReportProblems;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A number from 0 up to 1; Math.random by default. */
  readonly random?: () => number;
}): Election {
  const { node, lease, memory, timing, clock, logger, random = Math.random } = options;
  const { leaseMs, spreadMs = SPREAD_MS } = timing;
  const elector = createElector({ node, renewMs: timing.renewMs });
  const retries = createBackoff({ ...RETRY, random });
  const rereads = createBackoff({ ...REREAD, random });
  let role: Role = { kind: "undecided" };
  let transitions = 0;
  /** Undefined if they must be read. */
  let members: { readonly names: readonly string[]; readonly atMs: number } | undefined;
  let watch: Watch = CALM;
  /** Whether the leader does not answer at this moment. */
  let isLost = false;
  /** Whether the leader has answered since it is this node's leader. */
  let hasAnswered = false;
  /** Whether this node has waited for the node whose turn it is to take the Lease. */
  let hasWaited = false;
  let isWarned = false;
  /** Ends the current wait. */
  let wake = () => {};

  const isHeldFor = (share: number) => {
    const untilMs = elector.heldUntilMs();
    return untilMs !== undefined && clock.monotonic() < untilMs - (1 - share) * leaseMs;
  };

  const setRole = (next: Role) => {
    if (sameData(next, role)) return;
    const isNewLeader = next.kind !== "follower" || role.kind !== "follower" || next.leader.node !== role.leader.node;
    if (isNewLeader) {
      watch = CALM;
      isLost = hasAnswered = false;
    }
    role = next;
    options.onRole(next);
  };

  /** The role without the Lease: the last leader stays, either this node or the stored leader. */
  const rememberedRole = (): Role => {
    const leader = memory.leader();
    if (leader === undefined) return { kind: "undecided" };
    return leader.node === node
      ? { kind: "leader", isConfirmed: false }
      : { kind: "follower", leader, isConfirmed: false };
  };

  /** Waits until a time, or until something happens if it is undefined. Ends early when the leader is lost or returns. */
  const pause = (untilMs: number | undefined, signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      if (signal.aborted) return resolve();
      const ms = untilMs === undefined ? undefined : Math.max(0, untilMs - clock.monotonic());
      const cancel = ms === undefined ? () => {} : clock.schedule(ms, () => wake());
      wake = () => {
        cancel();
        wake = () => {};
        resolve();
      };
    });

  /** Waits while `isWanted` holds, until a time at the latest. */
  const pauseWhile = async (isWanted: () => boolean, untilMs: number, signal: AbortSignal) => {
    while (!signal.aborted && isWanted() && clock.monotonic() < untilMs) await pause(untilMs, signal);
  };
  const pauseFully = (untilMs: number, signal: AbortSignal) => pauseWhile(() => true, untilMs, signal);

  const noteSuccess = (record: LeaseRecord) => {
    transitions = record.transitions;
    options.onProblems(SCOPE, []);
    isWarned = false;
    retries.reset();
    rereads.reset();
  };

  /** This node takes no part for now, and watches the API server. */
  const stayAlone = (code: "site-lease-refused" | "site-not-member" | "site-leader-refused", detail: string) => {
    if (!isWarned) logger.warn("this node takes no part in its site", { reason: detail });
    isWarned = true;
    options.onProblems(SCOPE, [{ code, subject: "the Lease of the site", detail }]);
    setRole({ kind: "alone" });
  };

  /** Without the Lease, the last leader stays: this node, or the stored leader. */
  const fallBack = (failure: string, error: unknown) => {
    const detail = `${failure}: ${errorText(error)}`;
    // Any error that is not an ApiError is about this node's certificates.
    const isRefused = !(error instanceof ApiError) || ANSWERED.includes(error.kind);
    if (role.kind !== "leader" && isRefused) return stayAlone("site-lease-refused", detail);
    logger[isWarned ? "debug" : "warn"](failure, { error: errorText(error) });
    isWarned = true;
    const problem = { code: "site-lease-refused", subject: "the Lease of the site", detail } as const;
    options.onProblems(SCOPE, isRefused ? [problem] : []);
    if (role.kind !== "leader") setRole(rememberedRole());
    else if (!isHeldFor(DEADLINE_SHARE)) setRole({ kind: "leader", isConfirmed: false });
  };

  const readMembers = async (signal: AbortSignal) => {
    members = { names: await lease.members(signal), atMs: clock.monotonic() };
    options.onMembers(members.names);
    return members.names;
  };

  /** Whether a node is a member, by the last known members, or else by reading them now. */
  const isMember = async (name: string, signal: AbortSignal) =>
    members?.names.includes(name) || (await readMembers(signal)).includes(name);

  /** The member whose turn it is to succeed a holder of the Lease: the next one by name. */
  const isSuccessorOf = (holder: string) => {
    const names = members?.names.filter((name) => name !== holder) ?? [];
    return (names.find((name) => name > holder) ?? names[0]) === node;
  };

  const read = async (signal: AbortSignal) => {
    try {
      if (!await isMember(node, signal)) {
        stayAlone("site-not-member", `${node} is not among the members of the site: ${members!.names.join(", ")}`);
        await pauseFully(clock.monotonic() + MEMBERS_MS, signal);
        return;
      }
      const record = await lease.read(signal);
      elector.read(record, clock.monotonic());
      if (record.node === "" || record.node === node) noteSuccess(record);
    } catch (error) {
      if (signal.aborted) return;
      fallBack("cannot read the Lease of the site", error);
      await pause(clock.monotonic() + (role.kind === "leader" ? retries : rereads).nextMs(), signal);
    }
  };

  /** Takes the Lease, after a while if it is another node's turn. */
  const acquire = async ({ record }: Extract<ElectionStep, { kind: "acquire" }>, signal: AbortSignal) => {
    if (!hasWaited && role.kind !== "leader" && !isSuccessorOf(record.node)) {
      hasWaited = true;
      await pauseFully(clock.monotonic() + (START_SPREADS + random()) * spreadMs, signal);
      return elector.forget();
    }
    hasWaited = false;
    await write(async () => {
      const claim = { ...await options.self(signal), durationMs: leaseMs, transitions: transitionsAfter(record) };
      return await lease.take(record.version, claim, signal);
    }, signal);
  };

  /** Renews the Lease when it is time; takes it if this process has not taken it yet, or the server of this node has changed. */
  const renew = async ({ record, atMs }: Extract<ElectionStep, { kind: "renew" }>, signal: AbortSignal) => {
    if (atMs > clock.monotonic()) return await pause(atMs, signal);
    await write(async () => {
      if (members === undefined || clock.monotonic() - members.atMs >= MEMBERS_MS) await readMembers(signal);
      if (!members!.names.includes(node)) return undefined;
      const claim = await options.self(signal);
      const isSame = record.address === claim.address && record.certificate === claim.certificate;
      const isOwnTerm = elector.heldUntilMs() !== undefined;
      if (isOwnTerm && isSame && record.durationMs === leaseMs) return await lease.renew(record.version, signal);
      return await lease.take(
        record.version,
        { ...claim, durationMs: leaseMs, transitions: record.transitions },
        signal,
      );
    }, signal);
  };

  /** Sends a write, and leads if it is accepted; returns undefined if this node is not permitted to. */
  const write = async (send: () => Promise<LeaseRecord | undefined>, signal: AbortSignal) => {
    const sentMs = clock.monotonic();
    try {
      const record = await send();
      if (record === undefined) return elector.forget();
      elector.wrote(record, sentMs);
      noteSuccess(record);
      memory.remember(record);
      setRole({ kind: "leader", isConfirmed: true });
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.kind === "conflict") {
        if (watch.kind === "waiting" && !isLost) watch = CALM;
        return elector.forget();
      }
      fallBack("cannot write the Lease of the site", error);
      await pause(clock.monotonic() + (role.kind === "leader" ? retries : rereads).nextMs(), signal);
      // The write may have arrived although its answer did not.
      if (role.kind !== "leader") elector.forget();
    }
  };

  /** The reason for not following a leader; undefined if it is followed. */
  const objection = async (leader: LeaseRecord, signal: AbortSignal): Promise<string | undefined> => {
    if (!await isMember(leader.node, signal)) return `${leader.node}, which holds the Lease, is no member of the site`;
    if (await options.isProven(leader)) return undefined;
    return `the certificate of ${leader.node} does not prove that it has written the Lease which names it`;
  };

  /** Follows a leader until it does not answer; then waits for the end of its Lease, and has it read again. */
  const follow = async ({ leader, untilMs }: Extract<ElectionStep, { kind: "follow" }>, signal: AbortSignal) => {
    const { node: name, address, certificate, proof } = leader;
    const known = { node: name, address, certificate, proof };
    try {
      const reason = await objection(leader, signal);
      if (reason !== undefined) {
        stayAlone("site-leader-refused", reason);
        await pauseFully(Math.max(untilMs, clock.monotonic() + spreadMs), signal);
        return elector.forget();
      }
    } catch (error) {
      if (signal.aborted) return;
      fallBack("cannot check the leader of the site", error);
      await pause(clock.monotonic() + rereads.nextMs(), signal);
      return elector.forget();
    }
    noteSuccess(leader);
    memory.remember(known);
    setRole({ kind: "follower", leader: known, isConfirmed: true });
    hasWaited = false;
    for (;;) {
      const { kind, dueMs } = watch as { readonly kind: Watch["kind"]; readonly dueMs?: number };
      if (signal.aborted || kind === "waiting" || dueMs !== undefined && clock.monotonic() >= dueMs) break;
      await pause(dueMs, signal);
    }
    if (watch.kind === "lost") {
      watch = isLost || isSuccessorOf(name) ? { kind: "waiting", round: 0 } : CALM;
      members = undefined;
      return elector.forget();
    }
    if (watch.kind === "waiting") await awaitEnd(leader, untilMs, watch.round, signal);
  };

  /** Waits for the end of a Lease whose holder was lost: its successor takes it then, the others read it again. */
  const awaitEnd = async ({ node: holder }: Leader, untilMs: number, round: number, signal: AbortSignal) => {
    watch = { kind: "waiting", round: round + 1 };
    if (round === 0 && isSuccessorOf(holder)) {
      await pauseFully(untilMs - PREPARE_SHARE * leaseMs, signal);
      if (isLost) options.onStandBy();
      return await pauseFully(untilMs, signal);
    }
    const nextMs = clock.monotonic() + Math.min(round * leaseMs, LONGEST_ROUND_MS);
    await pauseWhile(() => isLost, Math.max(untilMs, nextMs) + (1 + random()) * spreadMs, signal);
    if (!isLost) watch = CALM;
    elector.forget();
  };

  const step = async (signal: AbortSignal) => {
    const next = elector.next(clock.monotonic());
    if (next.kind === "read") return await read(signal);
    if (next.kind === "acquire") return await acquire(next, signal);
    if (next.kind === "renew") return await renew(next, signal);
    await follow(next, signal);
  };

  return {
    lost() {
      if (isLost) return;
      isLost = true;
      if (role.kind !== "follower") return;
      // The Lease has nothing new for the others until its successor has had time to take it. A new leader may not serve yet.
      const waitMs = hasAnswered && isSuccessorOf(role.leader.node) ? 0 : leaseMs + TAKE_SPREADS * spreadMs;
      if (watch.kind === "calm") watch = { kind: "lost", dueMs: clock.monotonic() + waitMs + random() * spreadMs };
      wake();
    },
    followed() {
      if (watch.kind === "lost" && !hasAnswered) watch = CALM;
      hasAnswered = true;
      if (!isLost) return;
      isLost = false;
      if (role.kind === "follower") wake();
    },
    role: () => role,
    transitions: () => transitions,
    holds: () => isHeldFor(1),
    async run(signal) {
      const onAbort = () => wake();
      signal.addEventListener("abort", onAbort);
      try {
        setRole(rememberedRole());
        // All nodes of a site may start at the same moment.
        if (role.kind !== "leader") await pauseFully(clock.monotonic() + START_SPREADS * random() * spreadMs, signal);
        while (!signal.aborted) await step(signal);
      } finally {
        signal.removeEventListener("abort", onAbort);
      }
    },
  };
}

/** How often the leader will have changed when this Lease is taken; a Lease that was never held has no term. */
function transitionsAfter({ term, transitions }: LeaseRecord): number {
  return term === "" ? 0 : transitions + 1;
}
