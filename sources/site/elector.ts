import type { LeaseRecord } from "./lease.ts";

/** What a node does next about the Lease of its site. Times are those of a monotonic clock, in milliseconds. */
export type ElectionStep =
  /** Read the Lease: this node does not know it. */
  | { readonly kind: "read" }
  /** Try to become the leader: nobody is, or the Lease has ended. `version` is undefined if the Lease must be created. */
  | { readonly kind: "acquire"; readonly version: string | undefined; readonly transitions: number }
  /** This node is the leader: renew the Lease at that time. */
  | { readonly kind: "renew"; readonly record: LeaseRecord; readonly atMs: number }
  /** Another node is the leader, at least until that time. */
  | { readonly kind: "follow"; readonly leader: LeaseRecord; readonly untilMs: number };

/** Decides who leads, from what this node has seen of the Lease. Pure: it neither reads a clock nor sends requests. */
export interface Elector {
  /** The Lease was read, or is known not to exist. */
  read(record: LeaseRecord | undefined, nowMs: number): void;
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
    if (record === undefined || earlier === undefined) return undefined;
    const isOfTerm = earlier.node === record.node && earlier.term === record.term && record.term !== "";
    const sinceMs = record.renewedMs - earlier.renewedMs;
    return isOfTerm && sinceMs >= 0 ? known!.seenMs + sinceMs : undefined;
  };

  return {
    read(record, nowMs) {
      isStale = false;
      if (record?.node !== node) renewedMs = undefined;
      if (known !== undefined && known.record?.version === record?.version) return;
      known = { record, seenMs: Math.min(nowMs, latestWriteMs(record) ?? nowMs) };
    },
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
