import type { LeaseRecord } from "./lease.ts";

/** The next action of a node regarding the Lease of its site. Times are milliseconds of a monotonic clock. */
export type ElectionStep =
  /** Read the Lease: this node does not know it. */
  | { readonly kind: "read" }
  /** Try to become the leader: nobody holds the Lease, or it has ended. */
  | { readonly kind: "acquire"; readonly record: LeaseRecord }
  /** This node is the leader: renew the Lease at that time. */
  | { readonly kind: "renew"; readonly record: LeaseRecord; readonly atMs: number }
  /** Another node is the leader, at least until that time. */
  | { readonly kind: "follow"; readonly leader: LeaseRecord; readonly untilMs: number };

/** Decides who leads, from the versions of the Lease that this node has seen. Reads no clock and sends no requests. */
interface Elector {
  read(record: LeaseRecord, nowMs: number): void;
  /** A write of this node, sent at `sentMs`, was accepted. */
  wrote(record: LeaseRecord, sentMs: number): void;
  /** The Lease must be read again: a write was refused, or time has passed. */
  forget(): void;
  next(nowMs: number): ElectionStep;
  /** The end of the Lease that this node holds; undefined if it holds none. No other node takes it over earlier. */
  heldUntilMs(): number | undefined;
}

/**
 * An elector that has seen nothing. As in client-go's leaderelection, the times in the Lease are never compared with a clock:
 * another node's Lease has ended when this node has seen no new version of it for its duration. Since a version is seen after
 * it was written, and a holder counts from before its write, the Lease of the holder ends first.
 *
 * Followers rarely read the Lease. A version that is read late counts from the time when an earlier one of the same term was
 * seen, plus the time between both writes by the leader's clock. That is never before the later write.
 */
export function createElector({ node, renewMs }: {
  /** The name of this node, which holds the Lease. */
  readonly node: string;
  readonly renewMs: number;
}): Elector {
  let known: { readonly record: LeaseRecord; readonly seenMs: number } | undefined;
  let isStale = true;
  let renewedMs: number | undefined;

  /** The latest time at which a record can have been written, from an earlier one of its term; undefined without one. */
  const latestWriteMs = (record: LeaseRecord): number | undefined => {
    if (known === undefined || !isSameTerm(record, known.record)) return undefined;
    const sinceMs = record.renewedMs - known.record.renewedMs;
    return sinceMs >= 0 ? known.seenMs + sinceMs : undefined;
  };

  return {
    read(record, nowMs) {
      isStale = false;
      if (record.node !== node) renewedMs = undefined;
      if (known?.record.version === record.version) return;
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
      if (record.node === node) {
        return { kind: "renew", record, atMs: renewedMs === undefined ? nowMs : renewedMs + renewMs };
      }
      const untilMs = seenMs + record.durationMs;
      if (record.node !== "" && nowMs < untilMs) return { kind: "follow", leader: record, untilMs };
      return { kind: "acquire", record };
    },
    heldUntilMs() {
      return known === undefined || renewedMs === undefined ? undefined : renewedMs + known.record.durationMs;
    },
  };
}

/** Whether two versions are from the same term: written by the same process, with no other leader in between. */
function isSameTerm(a: LeaseRecord, b: LeaseRecord): boolean {
  return a.node === b.node && a.term === b.term && a.term !== "";
}
