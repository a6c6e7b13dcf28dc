import { internString } from "./intern.ts";
import { isAbsent, type RawObject } from "./raw.ts";

/** How a Service asks to be balanced: the texts of its annotations, which the planner reads. */
export interface BalanceAnnotations {
  readonly balance?: string;
  readonly affinityHash?: string;
  readonly weights?: string;
}

/** The keys of the annotations that say how a Service is balanced. */
export const BALANCE_ANNOTATIONS = {
  balance: "sluice.dev/balance",
  affinityHash: "sluice.dev/affinity-hash",
  weights: "sluice.dev/weights",
} as const satisfies Record<keyof BalanceAnnotations, string>;

const NAMES = Object.keys(BALANCE_ANNOTATIONS) as (keyof BalanceAnnotations)[];

/** Reads the annotations that say how a Service is balanced; undefined if it has none of them. */
export function readBalanceAnnotations(annotations: RawObject): BalanceAnnotations | undefined {
  let found: Partial<Record<keyof BalanceAnnotations, string>> | undefined;
  for (const name of NAMES) {
    const value = annotations[BALANCE_ANNOTATIONS[name]];
    if (isAbsent(value)) continue;
    // The API only accepts strings; a manifest may have a number.
    (found ??= {})[name] = internString(typeof value === "string" ? value : JSON.stringify(value));
  }
  return found;
}

/** The annotations of a Service again, by key, to pass them on. */
export function balanceAnnotations(balancing: BalanceAnnotations): Readonly<Record<string, string>> {
  return Object.fromEntries(NAMES.flatMap((name) => {
    const value = balancing[name];
    return value === undefined ? [] : [[BALANCE_ANNOTATIONS[name], value]];
  }));
}
