import { isAbsent, type RawObject } from "./raw.ts";

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

/** The maximum length of a balancing annotation, in characters. */
export const LONGEST_BALANCE_ANNOTATION = 4_096;

const TOO_LONG = " ".repeat(LONGEST_BALANCE_ANNOTATION + 1);

const NAMES = Object.keys(BALANCE_ANNOTATIONS) as (keyof BalanceAnnotations)[];

/**
 * Reads the balancing annotations of a Service; undefined if it has none. An annotation that is too long is replaced by spaces,
 * one more than permitted, so that the planner can report it without storing its text.
 */
export function readBalanceAnnotations(annotations: RawObject): BalanceAnnotations | undefined {
  let found: Partial<Record<keyof BalanceAnnotations, string>> | undefined;
  for (const name of NAMES) {
    const value = annotations[BALANCE_ANNOTATIONS[name]];
    if (isAbsent(value)) continue;
    // The API only accepts strings; a manifest may have a number.
    const text = typeof value === "string" ? value : JSON.stringify(value);
    (found ??= {})[name] = text.length > LONGEST_BALANCE_ANNOTATION ? TOO_LONG : text;
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
