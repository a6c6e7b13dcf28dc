import type { SyncProblem } from "../../core/model/mod.ts";
import type { Logger } from "../../platform/mod.ts";

/** Services or parts of them that the kernel refuses, by key, until they change or are tried again. */
export interface Refusals<Key> {
  /** Logs and keeps a refusal. */
  add(key: Key, refusal: Refusal): void;
  /** Whether this very value is refused; another one under the same key ends the refusal. */
  has(key: Key, wanted?: unknown): boolean;
  /** Ends the refusals of these keys. */
  forget(keys: Iterable<Key>): void;
  /** Ends all refusals; returns their keys. */
  takeAll(): readonly Key[];
  problems(): SyncProblem[];
  problemOf(key: Key): SyncProblem | undefined;
}

/** A refusal. */
export interface Refusal {
  /** The refused part: `rules of default/web:http`. */
  readonly what: string;
  /** The state of that part in the kernel. */
  readonly effect: "left out" | "unchanged";
  readonly servicePort: string | undefined;
  /** The tool's message. */
  readonly failure: string;
  /** The refused value, if `has` is called with one. */
  readonly wanted?: unknown;
}

/** No refusals yet. */
export function createRefusals<Key>(logger: Logger): Refusals<Key> {
  const refused = new Map<Key, { readonly wanted: unknown; readonly problem: SyncProblem }>();
  return {
    add(key, { what, effect, servicePort, failure, wanted }) {
      const message =
        `the kernel refuses the ${what} (${effect} until it changes or the next comparison with the kernel): ` +
        failure;
      logger.error("the kernel refused a change, retrying at the next comparison", {
        service: servicePort,
        refused: what,
        effect,
        error: failure,
      });
      refused.set(key, { wanted, problem: { code: "rules-refused", servicePort, message } });
    },
    has(key, wanted) {
      const known = refused.get(key);
      if (known === undefined) return false;
      if (known.wanted !== wanted) refused.delete(key);
      return known.wanted === wanted;
    },
    forget(keys) {
      if (refused.size > 0) { for (const key of keys) refused.delete(key); }
    },
    takeAll() {
      const keys = [...refused.keys()];
      refused.clear();
      return keys;
    },
    problems: () => Array.from(refused.values(), ({ problem }) => problem),
    problemOf: (key) => refused.get(key)?.problem,
  };
}
