import { readAnnotation } from "./annotation_text.ts";
import type { RawObject } from "./raw.ts";

/** The balancing annotations of a Service, unparsed; the planner reads them. */
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

/** Reads the balancing annotations of a Service; undefined if it has none. */
export function readBalanceAnnotations(annotations: RawObject): BalanceAnnotations | undefined {
  let found: Partial<Record<keyof BalanceAnnotations, string>> | undefined;
  for (const name of NAMES) {
    const text = readAnnotation(annotations, BALANCE_ANNOTATIONS[name]);
    if (text !== undefined) (found ??= {})[name] = text;
  }
  return found;
}

/** The annotations of a Service by key, to pass them on. */
export function balanceAnnotations(balancing: BalanceAnnotations): Readonly<Record<string, string>> {
  return Object.fromEntries(NAMES.flatMap((name) => {
    const value = balancing[name];
    return value === undefined ? [] : [[BALANCE_ANNOTATIONS[name], value]];
  }));
}
