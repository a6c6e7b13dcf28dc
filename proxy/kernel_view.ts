import { refusedPorts, type ServicePortKey, type ServicePortName, type SyncReport } from "../core/model/mod.ts";

/** A service port that the kernel refuses. Plain data. */
export interface Refusal {
  /** The tool that failed and its error message. */
  readonly message: string;
  /** The end of the first sync in which it failed, in milliseconds since 1970. */
  readonly sinceMs: number;
}

/** Records which planned changes of one family the kernel does not have. */
export interface KernelView {
  /** These service ports were planned and differ from before. */
  planned(keys: Iterable<ServicePortKey>): void;
  /** Everything planned so far was sent as part of this revision. */
  sent(revision: number): void;
  reported(report: SyncReport): void;
  /**
   * The number of service ports whose last change is not in the kernel, without refused ones.
   * @param hasUnsent whether anything differs from what was sent; a change that was reverted before does not
   */
  waiting(hasUnsent: boolean): number;
  refusal(name: ServicePortName): Refusal | undefined;
}

/** The number of revisions in flight that are kept apart. */
const MOST_IN_FLIGHT = 16;

/** Creates a view of a kernel that has everything. */
export function createKernelView(): KernelView {
  let unsent = new Set<ServicePortKey>();
  let inFlight: { readonly revision: number; readonly keys: ReadonlySet<ServicePortKey> }[] = [];
  let refused = new Map<ServicePortName, Refusal>();

  return {
    planned(keys) {
      for (const key of keys) unsent.add(key);
    },
    sent(revision) {
      if (unsent.size === 0) return;
      inFlight.push({ revision, keys: unsent });
      unsent = new Set();
      // While syncs fail, revisions accumulate; the oldest are then in effect with the one after them.
      if (inFlight.length <= MOST_IN_FLIGHT) return;
      const [oldest, next, ...rest] = inFlight;
      inFlight = [{ revision: next!.revision, keys: oldest!.keys.union(next!.keys) }, ...rest];
    },
    reported({ ok, revision, problems, endedAtMs }) {
      if (!ok) return;
      inFlight = inFlight.filter((one) => one.revision > revision);
      const before = refused;
      refused = new Map();
      for (const { servicePort, message } of refusedPorts(problems)) {
        refused.set(servicePort, { message, sinceMs: before.get(servicePort)?.sinceMs ?? endedAtMs });
      }
    },
    waiting(hasUnsent) {
      // A service port that changed again while its earlier change was in flight counts once.
      const unsentKeys: ReadonlySet<ServicePortKey> = hasUnsent ? unsent : new Set();
      return inFlight.reduce((all, { keys }) => all.union(keys), unsentKeys).size;
    },
    refusal: (name) => refused.get(name),
  };
}
