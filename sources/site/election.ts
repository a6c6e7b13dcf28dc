/** Takes part in the election of a site's leader: reads, takes and renews the Lease, and reports this node's role. */
import { type Backoff, type Clock, createBackoff, errorText, type Logger } from "../../platform/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import { ApiError, type ApiErrorKind } from "../kubernetes/mod.ts";
import { type Candidacy, createCandidacy, type SeenLease } from "./candidacy.ts";
import { createElector, type ElectionStep } from "./elector.ts";
import type { Lan, LanOptions } from "./lan.ts";
import type { Statement } from "./lan_messages.ts";
import type { Leader, LeaseClient, LeaseRecord } from "./lease.ts";
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

const SPREAD_MS = 2_000;
/** The mean time between two questions of a node that has lost its leader. */
const ASK_MS = 1_000;
/** How long a former leader waits for the answer of another one before it leads again. */
const ANSWER_MS = 1_500;
/** How long before the end of the Lease one node connects to the API server, at most a third of the Lease. */
const PREPARE_MS = 10_000;
/** The share of the Lease's duration over which followers read it after they have lost their leader. */
const LOST_SHARE = 1 / 3;
/** The waits of a leader whose renewals fail. */
const RETRY: { readonly firstMs: number; readonly longestMs: number } = { firstMs: 1_000, longestMs: 5_000 };
/** The waits of other nodes that cannot read the Lease. */
const REREAD: { readonly firstMs: number; readonly longestMs: number } = { firstMs: 2_000, longestMs: 30_000 };
/** A leader is no longer confirmed after this share of its Lease without a renewal (client-go: RenewDeadline). */
const DEADLINE_SHARE = 2 / 3;
/** The scope of its problems. */
const SCOPE = "site lease";

/** The errors for which the API server answers: no Lease can be used, but its objects may. */
const ANSWERED: readonly ApiErrorKind[] = ["unauthorized", "forbidden", "not-found", "rejected", "garbled"];

/** Creates an election in which this node plays no part yet. */
export function createElection(options: ElectionOptions): Election {
  const { node, lease, memory, timing, clock, logger, onProblems, random = Math.random } = options;
  const elector = createElector({ node, renewMs: timing.renewMs });
  const retries = createBackoff({ ...RETRY, random });
  const rereads = createBackoff({ ...REREAD, random });
  let role: Role = { kind: "undecided" };
  let transitions = 0;
  let isLost = false;
  // Whether the leader has failed, and has not shown since that it holds the Lease: it may still serve although it does not.
  let isInDoubt = false;
  let wake = () => {};
  // Whether this candidate has waited its share of the spread since the Lease ended.
  let isSpread = false;
  // Whether this outage of the Lease has been logged.
  let isWarned = false;

  const answer = ({ isNew }: { readonly isNew: boolean }): Statement | undefined => {
    const known = elector.known();
    if (role.kind === "leader") {
      if (isHeld(DEADLINE_SHARE) && known?.record.node === node) return { kind: "leader", record: known.record };
      const leader = memory.leader();
      const isCandidate = candidacy?.hasTurn() ?? false;
      if (leader?.node === node) return { kind: "last-leader", leader, isCandidate };
    }
    if (candidacy?.hasTurn()) return { kind: "candidate" };
    const ageMs = known === undefined ? Infinity : clock.monotonic() - known.seenMs;
    const isAlive = known !== undefined && ageMs < known.record.durationMs && known.record.node !== "";
    // Its leader itself answers, if it can.
    return isNew && isInDoubt && isAlive ? { kind: "seen", record: known.record, ageMs } : undefined;
  };

  const lan = options.openLan?.({
    answer,
    isNews: (record) => elector.isRenewal(record),
    onRenewed(record) {
      if (!elector.isRenewal(record)) return;
      elector.renewed(record, clock.monotonic());
      isInDoubt = false;
    },
  });
  const candidacy = lan && createCandidacy({
    lan,
    onLastLeader: () => role.kind === "undecided" && setRole(remembered()),
    clock,
    random,
  });
  // The LAN takes the place of random waits only where it works.
  const isOnLan = () => lan?.isHeard(timing.leaseMs) ?? false;

  const setRole = (next: Role) => {
    if (sameRole(next, role)) return;
    const isNewLeader = next.kind === "follower" && role.kind === "follower" && next.leader.node !== role.leader.node;
    if (next.kind !== role.kind || isNewLeader) isLost = isInDoubt = false;
    role = next;
    options.onRole(next);
  };

  /** Waits, or until something happens if `ms` is undefined. Ends early when the leader is lost or the run ends. */
  const pause = (ms: number | undefined, signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      if (signal.aborted) return resolve();
      const cancel = ms === undefined ? () => {} : clock.schedule(ms, () => wake());
      wake = () => {
        cancel();
        wake = () => {};
        resolve();
      };
    });

  /** Waits, whatever happens meanwhile, unless the run ends. */
  const pauseFully = async (ms: number, signal: AbortSignal) => {
    const untilMs = clock.monotonic() + ms;
    while (!signal.aborted && clock.monotonic() < untilMs) await pause(untilMs - clock.monotonic(), signal);
  };

  const spread = () => random() * (timing.spreadMs ?? SPREAD_MS);
  const isHeld = (share: number) => {
    const untilMs = elector.heldUntilMs();
    return untilMs !== undefined && clock.monotonic() < untilMs - (1 - share) * timing.leaseMs;
  };

  const seen = (record: LeaseRecord) => {
    transitions = record.transitions;
    onProblems(SCOPE, []);
    isWarned = false;
    retries.reset();
    rereads.reset();
  };

  /** Takes over what another node has told of the Lease. */
  const learn = ({ record, ageMs }: SeenLease) => {
    if (ageMs === 0) isInDoubt = false;
    elector.heard(record, clock.monotonic() - ageMs);
    seen(record);
  };

  const lead = (record: LeaseRecord) => {
    seen(record);
    memory.remember(record);
    isSpread = false;
    candidacy?.rest();
    lan?.announce(record);
    setRole({ kind: "leader", isConfirmed: true });
  };

  /** Without the Lease, the last leader stays: this node, or the one that it remembers. */
  const fallBack = (failure: string, error: unknown) => {
    logger[isWarned ? "debug" : "warn"](failure, { error: errorText(error) });
    isWarned = true;
    const isAnswered = error instanceof ApiError && ANSWERED.includes(error.kind);
    const detail = errorText(error);
    onProblems(SCOPE, isAnswered ? [{ code: "site-lease-refused", subject: "the Lease of the site", detail }] : []);
    if (role.kind === "leader") {
      if (!isHeld(DEADLINE_SHARE)) setRole({ kind: "leader", isConfirmed: false });
      return;
    }
    setRole(isAnswered ? { kind: "alone" } : remembered());
  };

  const remembered = (): Role => {
    const own = memory.leader();
    const leader = own?.node === node ? own : candidacy?.lastLeader() ?? own;
    if (leader === undefined) return { kind: "undecided" };
    return leader.node === node
      ? { kind: "leader", isConfirmed: false }
      : { kind: "follower", leader, isConfirmed: false };
  };

  const read = async (signal: AbortSignal) => {
    const found = await candidacy?.find(elector.known() === undefined, () => false, signal);
    if (found !== undefined) return learn(found);
    if (signal.aborted) return;
    try {
      const before = elector.known()?.record.version;
      const record = await lease.read(signal);
      if (record?.version !== before) isInDoubt = false;
      elector.read(record, clock.monotonic());
      if (record !== undefined) seen(record);
    } catch (error) {
      if (signal.aborted) return;
      candidacy?.rest();
      fallBack("cannot read the Lease of the site", error);
      await pause((role.kind === "leader" ? retries : rereads).nextMs(), signal);
    }
  };

  const write = async (send: () => Promise<LeaseRecord>, backoff: Backoff, signal: AbortSignal) => {
    const sentMs = clock.monotonic();
    try {
      const record = await send();
      elector.wrote(record, sentMs);
      lead(record);
    } catch (error) {
      if (signal.aborted) return;
      const isOutdated = error instanceof ApiError && (error.kind === "conflict" || error.kind === "not-found");
      if (isOutdated) return elector.forget();
      candidacy?.rest();
      fallBack("cannot write the Lease of the site", error);
      await pause(backoff.nextMs(), signal);
      // The write may have arrived although its answer did not.
      if (role.kind !== "leader") elector.forget();
    }
  };

  const acquire = async (claimed: Extract<ElectionStep, { kind: "acquire" }>, signal: AbortSignal) => {
    if (!isSpread && role.kind !== "leader" && !(candidacy?.hasTurn() && isOnLan())) {
      isSpread = true;
      await pause(spread(), signal);
      return elector.forget();
    }
    const { version, transitions } = claimed;
    const send = async () => {
      const claim = { ...await options.self(signal), durationMs: timing.leaseMs, transitions };
      return await (version === undefined ? lease.create(claim, signal) : lease.take(version, claim, signal));
    };
    await write(send, rereads, signal);
    isSpread = false;
  };

  const renew = async ({ record, atMs }: Extract<ElectionStep, { kind: "renew" }>, signal: AbortSignal) => {
    const waitMs = atMs - clock.monotonic();
    if (waitMs > 0) return await pause(waitMs, signal);
    const { version, transitions, durationMs } = record;
    const send = async () => {
      const claim = await options.self(signal);
      const isSame = record.address === claim.address && record.certificate === claim.certificate;
      const isOwnTerm = elector.heldUntilMs() !== undefined;
      if (isOwnTerm && isSame && durationMs === timing.leaseMs) return await lease.renew(version, signal);
      return await lease.take(version, { ...claim, durationMs: timing.leaseMs, transitions }, signal);
    };
    await write(send, retries, signal);
  };

  const follow = async (
    { leader, untilMs }: Extract<ElectionStep, { kind: "follow" }>,
    signal: AbortSignal,
  ) => {
    const { node, address, certificate } = leader;
    memory.remember({ node, address, certificate });
    setRole({ kind: "follower", leader: { node, address, certificate }, isConfirmed: true });
    if (!isLost && !(isInDoubt && isOnLan())) {
      isSpread = false;
      candidacy?.rest();
      await pause(undefined, signal);
      if (isOnLan()) return;
      // All nodes lose their leader at the same moment, and must know the Lease only by its end.
      await pauseFully(random() * timing.leaseMs * LOST_SHARE, signal);
    } else if (candidacy !== undefined && isOnLan()) {
      return await succeed(candidacy, untilMs, signal);
    } else {
      const waitMs = untilMs - clock.monotonic() + spread();
      await pause(waitMs, signal);
      isSpread = isLost;
    }
    elector.forget();
  };

  /**
   * Follows a leader that does not answer, up to the end of its Lease. The line stays unused until one node, whose turn it is, reads
   * the Lease shortly before, so that its connection is open and the version is known when it may take the Lease.
   */
  const succeed = async (candidacy: Candidacy, untilMs: number, signal: AbortSignal) => {
    const prepareMs = untilMs - Math.min(PREPARE_MS, timing.leaseMs / 3);
    if (clock.monotonic() < prepareMs) {
      candidacy.rest();
      const found = await candidacy.ask(false, signal);
      if (found !== undefined) learn(found);
      return await pause(Math.min(prepareMs - clock.monotonic(), ASK_MS * (0.5 + random())), signal);
    }
    if (candidacy.hasTurn()) {
      if (isLost) options.onStandBy?.();
      return await pause(untilMs - clock.monotonic(), signal);
    }
    const found = await candidacy.find(false, () => !isInDoubt, signal);
    if (found !== undefined) learn(found);
    else if (isInDoubt) elector.forget();
  };

  const step = async (signal: AbortSignal) => {
    const next = elector.next(clock.monotonic());
    if (next.kind === "read") return await read(signal);
    if (next.kind === "acquire") return await acquire(next, signal);
    if (next.kind === "renew") return await renew(next, signal);
    await follow(next, signal);
  };

  const takePart = async (signal: AbortSignal) => {
    while (!signal.aborted) await step(signal);
  };

  return {
    lost() {
      if (isLost) return;
      isLost = isInDoubt = true;
      if (role.kind === "follower") wake();
    },
    followed() {
      if (!isLost) return;
      isLost = false;
      if (role.kind === "follower") wake();
    },
    role: () => role,
    transitions: () => transitions,
    holds: () => isHeld(1),
    async run(signal) {
      const onAbort = () => wake();
      let cancel = () => {};
      signal.addEventListener("abort", onAbort);
      try {
        // Another node may lead since this one did: its answer comes first, unless there is none in time.
        const isFormerLeader = memory.leader()?.node === node;
        const decide = () => role.kind === "undecided" && setRole(remembered());
        if (lan !== undefined && isFormerLeader) cancel = clock.schedule(ANSWER_MS, decide);
        else decide();
        await Promise.all([lan?.run(signal), takePart(signal)]);
      } finally {
        cancel();
        signal.removeEventListener("abort", onAbort);
      }
    },
  };
}
