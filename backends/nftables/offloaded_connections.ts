import type { Family } from "../../core/model/mod.ts";
import { errorText } from "../../platform/mod.ts";
import type { BackendOptions } from "../contract/mod.ts";
import { deleteConnections } from "../host/mod.ts";
import type { Runner } from "../tools/mod.ts";

/** The most endpoints that wait: for each, conntrack reads the whole table, 0.3 s with 100,000 entries. */
const MOST_WAITING = 1000;

/** Deletes the conntrack entries of offloaded connections to deleted endpoints: packets in a flow table skip most rules. */
interface OffloadedCleaner {
  /**
   * Deletes the entries of these endpoints (`address:port`) one after the other, and does not wait for it. The next packet of
   * each connection then meets the rules, which send it to an endpoint that refuses it. A failure is a problem and not retried.
   */
  clean(endpoints: readonly string[]): void;
  /** Keeps the entries of an endpoint that is used again; waits if they are being deleted. */
  keep(endpoint: string): Promise<void> | undefined;
}

/** Creates a cleaner without work. */
export function createOffloadedCleaner(
  family: Family,
  runner: Runner,
  onProblems: BackendOptions["onProblems"],
): OffloadedCleaner {
  const waiting = new Set<string>();
  let isFailing = false;
  let current: { readonly endpoint: string; readonly deleted: Promise<void> } | undefined;

  const deleteNext = (): void => {
    const [endpoint] = waiting;
    if (endpoint === undefined) return void (current = undefined);
    waiting.delete(endpoint);
    const deleted = deleteConnections(family, runner, [endpoint]).then(
      () => {
        if (isFailing) onProblems?.("flow tables", []);
        isFailing = false;
      },
      (error) => {
        isFailing = true;
        waiting.clear();
        const detail = `those in a flow table: ${errorText(error)}`;
        onProblems?.("flow tables", [{ code: "connections-not-reset", subject: family, detail }]);
      },
    );
    current = { endpoint, deleted };
    void deleted.then(deleteNext);
  };
  return {
    clean(endpoints) {
      for (const endpoint of endpoints.slice(0, MOST_WAITING - waiting.size)) waiting.add(endpoint);
      if (current === undefined) deleteNext();
    },
    keep(endpoint) {
      waiting.delete(endpoint);
      return current?.endpoint === endpoint ? current.deleted : undefined;
    },
  };
}
