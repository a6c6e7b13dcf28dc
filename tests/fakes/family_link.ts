import type { FamilyHealth, FamilyLink, FamilyListener } from "../../core/channel/family_link.ts";
import { type FamilyDelta, readTraffic, type SyncReport, type TrafficReading } from "../../core/model/mod.ts";

const NO_TRAFFIC: TrafficReading = {
  durationMs: 0,
  ports: [],
  endpoints: [],
  counts: new Float64Array(),
  failures: [],
};

/** The link to a family's worker, whose messages a test triggers. */
export interface FakeFamilyLink {
  /** Passed to a channel to start its worker. */
  readonly connect: (listener: FamilyListener) => FamilyLink;
  /** Every delta sent, oldest first. */
  readonly sent: readonly FamilyDelta[];
  isStopped(): boolean;
  /** The calls of `rest` and `wake`, in order. */
  readonly rests: readonly ("rest" | "wake")[];
  /** Sets whether the worker may rest; initially it may. */
  allowRest(may: boolean): void;
  /** Signals that the worker has started or lost its state. */
  reset(): void;
  /** Sends a report, by default on the last revision sent. */
  report(report?: Partial<SyncReport>): void;
  health(health: FamilyHealth): void;
}

/**
 * Creates a link whose worker does nothing by itself.
 * @param reading the answer to each request for traffic; null for none
 */
export function createFakeFamilyLink(reading: TrafficReading | null = NO_TRAFFIC): FakeFamilyLink {
  const sent: FamilyDelta[] = [];
  let listener: FamilyListener | undefined;
  let stopped = false;
  let canRest = true;
  const rests: ("rest" | "wake")[] = [];
  const connectedListener = () => {
    if (listener === undefined) throw new Error("nothing has connected to this link");
    return listener;
  };
  return {
    sent,
    connect(connected) {
      listener = connected;
      return {
        send: (delta) => void sent.push(delta),
        call: ({ name, checked }) =>
          Promise.resolve(name === readTraffic.name && reading ? checked(reading) : undefined),
        compare() {},
        rest() {
          if (canRest) rests.push("rest");
          return canRest;
        },
        wake: () => void rests.push("wake"),
        cleanup: () => Promise.resolve(),
        stop() {
          stopped = true;
          return Promise.resolve();
        },
      };
    },
    rests,
    allowRest: (may) => void (canRest = may),
    isStopped: () => stopped,
    reset: () => connectedListener().onReset(),
    report(report = {}) {
      connectedListener().onReport({
        family: "IPv4",
        revision: sent.at(-1)?.revision ?? 0,
        ok: true,
        full: false,
        endedAtMs: 0,
        durationMs: 1,
        problems: [],
        counts: {},
        ...report,
      });
    },
    health: (health) => connectedListener().onHealth(health),
  };
}
