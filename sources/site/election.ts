/** Takes part in the election of a site's leader: reads, takes and renews the Lease, and reports this node's role. */
import { type Backoff, type Clock, createBackoff, errorText, type Logger } from "../../platform/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import { ApiError, type ApiErrorKind } from "../kubernetes/mod.ts";
import { createElector, type ElectionStep } from "./elector.ts";
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
  readonly timing: ElectionTiming;
  /** Receives every new role. */
  readonly onRole: (role: Role) => void;
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
  let wake = () => {};
  // Whether this candidate has waited its share of the spread since the Lease ended.
  let isSpread = false;
  // Whether this outage of the Lease has been logged.
  let isWarned = false;

  const setRole = (next: Role) => {
    if (sameRole(next, role)) return;
    const isNewLeader = next.kind === "follower" && role.kind === "follower" && next.leader.node !== role.leader.node;
    if (next.kind !== role.kind || isNewLeader) isLost = false;
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

  const lead = (record: LeaseRecord) => {
    seen(record);
    memory.remember(record);
    isSpread = false;
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
    const leader = memory.leader();
    if (leader === undefined) return { kind: "undecided" };
    return leader.node === node
      ? { kind: "leader", isConfirmed: false }
      : { kind: "follower", leader, isConfirmed: false };
  };

  const read = async (signal: AbortSignal) => {
    try {
      const record = await lease.read(signal);
      elector.read(record, clock.monotonic());
      if (record !== undefined) seen(record);
    } catch (error) {
      if (signal.aborted) return;
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
      fallBack("cannot write the Lease of the site", error);
      await pause(backoff.nextMs(), signal);
      // The write may have arrived although its answer did not.
      if (role.kind !== "leader") elector.forget();
    }
  };

  const acquire = async (claimed: Extract<ElectionStep, { kind: "acquire" }>, signal: AbortSignal) => {
    if (!isSpread && role.kind !== "leader") {
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
    if (!isLost) {
      isSpread = false;
      await pause(undefined, signal);
      // All nodes lose their leader at the same moment, and must know the Lease only by its end.
      await pauseFully(random() * timing.leaseMs * LOST_SHARE, signal);
    } else {
      const waitMs = untilMs - clock.monotonic() + spread();
      await pause(waitMs, signal);
      isSpread = isLost;
    }
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
      signal.addEventListener("abort", onAbort);
      try {
        setRole(remembered());
        while (!signal.aborted) await step(signal);
      } finally {
        signal.removeEventListener("abort", onAbort);
      }
    },
  };
}
