import type { Refusals } from "../reconcile/mod.ts";
import type { Difference, Ledger } from "./ledger.ts";

/** The differences of a ledger, without those that the kernel refuses. */
export interface Pending<Value> {
  differences(): Difference<Value>[];
  /** Records a refusal with the tool's message. */
  refuse(id: string, failure: string): void;
}

/** The pending differences of a ledger. The kind is for messages: `virtual server`. */
export function createPending<Value>(kind: string, ledger: Ledger<Value>, refusals: Refusals<string>): Pending<Value> {
  return {
    differences: () => ledger.differences().filter(({ id, wanted }) => !refusals.has(id, wanted)),
    refuse(id, failure) {
      refusals.add(id, {
        what: `${kind} ${id}`,
        effect: "unchanged",
        servicePort: ledger.owner(id)?.replace(/\|\w+$/, ""),
        failure,
        wanted: ledger.wanted(id),
      });
    },
  };
}
