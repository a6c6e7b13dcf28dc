/** Clients of one Lease over lines that delay, lose and cut requests and answers. */
import { ApiError } from "../../core/objects/source.ts";
import type { LeaseClient, LeaseRecord, LeaseWrite } from "../../features/site/lease.ts";
import type { Clock } from "../../platform/clock.ts";

/** The line of one node. */
export interface LeaseLine {
  readonly client: LeaseClient;
  /** Whether nothing passes. */
  isCut: boolean;
}

/** A Lease, and the lines to it. */
export interface LeaseLines {
  /** The Lease as the API server has it. */
  current(): LeaseRecord;
  /** Writes the Lease at once, as whoever holds the token of a node can. */
  seize(write: LeaseWrite): void;
  /** A line whose delays and losses `random` decides. */
  open(random: () => number): LeaseLine;
}

/** How long a client waits for an answer. */
const TIMEOUT_MS = 10_000;
/** The longest delay of a request, and of an answer. */
const DELAY_MS = 3_000;
/** The share of requests that get lost, and of answers. */
const LOSS = 0.1;

const FREE = {
  node: "",
  address: "",
  certificate: "",
  proof: "",
  durationMs: 0,
  transitions: 0,
  term: "",
  renewedMs: 0,
};

/** Creates an API server with the Lease of a site, which nobody holds. */
export function createLeaseLines(clock: Clock, members: readonly string[]): LeaseLines {
  let record: LeaseRecord = { ...FREE, version: "0" };
  let revision = 0;

  const put = (write: LeaseWrite & Pick<LeaseRecord, "term" | "renewedMs">): LeaseRecord =>
    record = { ...write, version: String(++revision) };
  const requireVersion = (version: string): LeaseRecord => {
    if (record.version !== version) throw new ApiError("conflict", "the Lease has changed");
    return record;
  };

  return {
    current: () => record,
    seize: (write) => void put({ ...write, term: "seized", renewedMs: 0 }),
    open(random) {
      const line: { isCut: boolean; client: LeaseClient } = { isCut: false, client: undefined as never };
      const pass = <T>(act: () => T, signal: AbortSignal): Promise<T> => {
        const { promise, resolve, reject } = Promise.withResolvers<T>();
        const isOver = clock.schedule(TIMEOUT_MS, () => reject(new ApiError("timeout", "no answer")));
        promise.finally(isOver).catch(() => {});
        signal.addEventListener("abort", () => reject(signal.reason));
        const leg = (then: () => void) => {
          if (random() < LOSS) return;
          clock.schedule(random() * DELAY_MS, () => line.isCut || then());
        };
        leg(() => {
          try {
            const result = act();
            leg(() => resolve(result));
          } catch (error) {
            leg(() => reject(error));
          }
        });
        return promise;
      };
      // The leader's own clock, which has nothing in common with those of others but its rate.
      const offsetMs = random() * 1e9;
      const now = () => clock.monotonic() + offsetMs;
      const taken = (write: LeaseWrite) => ({ ...write, term: `${now()}`, renewedMs: now() });
      line.client = {
        read: (signal) => pass(() => record, signal),
        members: (signal) => pass(() => [...members].sort(), signal),
        take(version, write, signal) {
          const claim = taken(write);
          return pass(() => (requireVersion(version), put(claim)), signal);
        },
        renew(version, signal) {
          const renewedMs = now();
          return pass(() => put({ ...requireVersion(version), renewedMs }), signal);
        },
      };
      return line;
    },
  };
}
