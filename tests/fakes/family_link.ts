import type { FamilyHealth, FamilyLink, FamilyListener } from "../../core/channel/family_link.ts";
import type { FamilyDelta, SyncReport } from "../../core/model/mod.ts";

/** A family's worker as its link shows it, told by a test what to say. */
export interface FakeFamilyLink {
  /** What a channel is given to start its worker with. */
  readonly connect: (listener: FamilyListener) => FamilyLink;
  /** Every delta that was sent, the oldest first. */
  readonly sent: readonly FamilyDelta[];
  isStopped(): boolean;
  /** How often the worker was told to rest and to wake, in order. */
  readonly rests: readonly ("rest" | "wake")[];
  /** From now on the worker may, or may not, rest; it may at first. */
  letRest(may: boolean): void;
  /** The worker has started, or has lost its state. */
  reset(): void;
  /** The worker reports on `revision`; on the last one sent where none is given. */
  report(report?: Partial<SyncReport>): void;
  health(health: FamilyHealth): void;
}

/** A link whose worker does nothing by itself. */
export function createFakeFamilyLink(): FakeFamilyLink {
  const sent: FamilyDelta[] = [];
  let listener: FamilyListener | undefined;
  let stopped = false;
  let canRest = true;
  const rests: ("rest" | "wake")[] = [];
  const told = () => {
    if (listener === undefined) throw new Error("nothing has connected to this link");
    return listener;
  };
  return {
    sent,
    connect(connected) {
      listener = connected;
      return {
        send: (delta) => void sent.push(delta),
        describe: () => Promise.resolve(undefined),
        packetCounts: () => Promise.resolve(undefined),
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
    letRest: (may) => void (canRest = may),
    isStopped: () => stopped,
    reset: () => told().onReset(),
    report(report = {}) {
      told().onReport({
        family: "IPv4",
        revision: sent.at(-1)?.revision ?? 0,
        ok: true,
        full: false,
        endedAtMs: 0,
        durationMs: 1,
        problems: [],
        figures: {},
        ...report,
      });
    },
    health: (health) => told().onHealth(health),
  };
}
