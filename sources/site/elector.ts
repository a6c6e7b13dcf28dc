import type { LeaseRecord } from "./lease.ts";

/** What a node does next about the Lease of its site. Times are those of a monotonic clock, in milliseconds. */
export type ElectionStep =
  /** Read the Lease: this node does not know it. */
  | { readonly kind: "read" }
  /** Try to become the leader: there is none, or the Lease has ended. `version` is undefined if the Lease must be created. */
  | { readonly kind: "acquire"; readonly version: string | undefined; readonly transitions: number }
  /** This node is the leader: renew the Lease at that time. */
  | { readonly kind: "renew"; readonly record: LeaseRecord; readonly atMs: number }
  /** Another node is the leader, at least until that time. */
  | { readonly kind: "follow"; readonly leader: LeaseRecord; readonly untilMs: number };

/** Decides who leads, from what this node has seen of the Lease. Pure: it neither reads a clock nor sends requests. */
export interface Elector {
  /** The Lease was read, or is known not to exist. */
  read(record: LeaseRecord | undefined, nowMs: number): void;
  /** Another node has sent a version of the Lease, which it saw at that time; a later renewal may be known already. */
  heard(record: LeaseRecord, seenMs: number): void;
  /** Whether a renewal that the leader has announced is later than the version that this node knows. */
  isRenewal(record: LeaseRecord): boolean;
  /** The leader has announced its renewal (see `isRenewal`); its address and certificate are those known before. */
  renewed(record: LeaseRecord, nowMs: number): void;
  /** The version of the Lease that this node knows, and when it was seen; undefined if there is none. */
  known(): { readonly record: LeaseRecord; readonly seenMs: number } | undefined;
  /** A write of this node, sent at `sentMs`, was accepted. */
  wrote(record: LeaseRecord, sentMs: number): void;
  /** The Lease must be read again: a write was refused, or time has passed. */
  forget(): void;
  next(nowMs: number): ElectionStep;
  /** The end of the Lease that this node holds; undefined if it holds none. No other node takes it over earlier. */
  heldUntilMs(): number | undefined;
}

/** Options of `createElector`. */
export interface ElectorOptions {
  /** The name of this node, which holds the Lease. */
  readonly node: string;
  /** The time from one renewal to the next. */
  readonly renewMs: number;
}

/**
 * An elector that has seen nothing. As in client-go's leaderelection, the times in the Lease are never compared with a clock:
 * another node's Lease has ended when this node has seen no new version of it for its duration. Since a version is seen after
 * it was written, and a holder counts from before its write, the Lease of the holder ends first.
 *
 * Followers rarely read the Lease. A version that is read late counts from the time at which an earlier one of the same term was
 * seen, plus the time that the leader's own clock has counted between the two writes: still not before the later write.
 */
export function createElector({ node, renewMs }: ElectorOptions): Elector {
  let known: { readonly record: LeaseRecord | undefined; readonly seenMs: number } | undefined;
  let isStale = true;
  let renewedMs: number | undefined;

  /** The latest time at which a record can have been written, from an earlier one of its term; undefined without one. */
  const latestWriteMs = (record: LeaseRecord | undefined): number | undefined => {
    const earlier = known?.record;
    if (record === undefined || earlier === undefined || !isSameTerm(record, earlier)) return undefined;
    const sinceMs = record.renewedMs - earlier.renewedMs;
    return sinceMs >= 0 ? known!.seenMs + sinceMs : undefined;
  };

  const see = (record: LeaseRecord | undefined, seenMs: number) => {
    known = { record, seenMs: Math.min(seenMs, latestWriteMs(record) ?? seenMs) };
  };

  const isRenewal = (record: LeaseRecord) => {
    const earlier = known?.record;
    const isNext = earlier !== undefined && isSameTerm(record, earlier) && record.renewedMs > earlier.renewedMs;
    return isNext && record.node !== node;
  };

  const read = (record: LeaseRecord | undefined, nowMs: number) => {
    isStale = false;
    if (record?.node !== node) renewedMs = undefined;
    if (known !== undefined && known.record?.version === record?.version) return;
    see(record, nowMs);
  };

  return {
    read,
    heard(record, seenMs) {
      const earlier = known?.record;
      const isOvertaken = earlier !== undefined && isSameTerm(record, earlier) && record.renewedMs < earlier.renewedMs;
      if (isOvertaken) isStale = false;
      else read(record, seenMs);
    },
    isRenewal,
    renewed(record, nowMs) {
      const { address, certificate } = known!.record!;
      see({ ...record, address, certificate }, nowMs);
    },
    known: () => known?.record === undefined ? undefined : { record: known.record, seenMs: known.seenMs },
    wrote(record, sentMs) {
      isStale = false;
      renewedMs = sentMs;
      known = { record, seenMs: sentMs };
    },
    forget() {
      isStale = true;
    },
    next(nowMs) {
      if (known === undefined || isStale) return { kind: "read" };
      const { record, seenMs } = known;
      if (record === undefined) return { kind: "acquire", version: undefined, transitions: 0 };
      const { version, durationMs, transitions } = record;
      if (record.node === node) {
        return { kind: "renew", record, atMs: renewedMs === undefined ? nowMs : renewedMs + renewMs };
      }
      const untilMs = seenMs + durationMs;
      if (record.node !== "" && nowMs < untilMs) return { kind: "follow", leader: record, untilMs };
      return { kind: "acquire", version, transitions: transitions + 1 };
    },
    heldUntilMs() {
      const { record } = known ?? {};
      return record === undefined || renewedMs === undefined ? undefined : renewedMs + record.durationMs;
    },
  };
}

/** Whether two versions are of one term: of one node's process, between whose writes no other node has led. */
function isSameTerm(a: LeaseRecord, b: LeaseRecord): boolean {
  return a.node === b.node && a.term === b.term && a.term !== "";
}
