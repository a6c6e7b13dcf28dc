import type { SyncProblem } from "../../core/model/mod.ts";
import type { Logger } from "../../platform/mod.ts";

/** What the kernel refuses: it is left out until something else is wanted in its place, or the next comparison. */
export interface Refusals {
  /** Whether this very value was refused. */
  has(id: string, wanted: unknown): boolean;
  /**
   * @param what for the message: `virtual server -t 10.96.0.10:80`
   * @param failure the tool's words
   */
  add(id: string, wanted: unknown, what: string, servicePort: string | undefined, failure: string): void;
  clear(): void;
  problems(): SyncProblem[];
}

/** Nothing is refused yet. */
export function createRefusals(logger: Logger): Refusals {
  const refused = new Map<string, { readonly wanted: unknown; readonly problem: SyncProblem }>();
  return {
    has(id, wanted) {
      const known = refused.get(id);
      if (known && known.wanted !== wanted) refused.delete(id);
      return known?.wanted === wanted && known !== undefined;
    },
    add(id, wanted, what, servicePort, failure) {
      const message = `the kernel refuses the ${what}, which stays as it is until it changes or the next comparison ` +
        `with the kernel: ${failure}`;
      logger.error(message, { service: servicePort });
      refused.set(id, { wanted, problem: { code: "rules-refused", servicePort, message } });
    },
    clear: () => refused.clear(),
    problems: () => [...refused.values()].map(({ problem }) => problem),
  };
}
