/** The syntax tree of a state file. */

/** A value of a state file; `line` is its line in the file, from 1. */
export type StateNode =
  | { readonly kind: "map"; readonly line: number; readonly entries: readonly StateEntry[] }
  | { readonly kind: "list"; readonly line: number; readonly items: readonly StateNode[] }
  | {
    readonly kind: "scalar";
    readonly line: number;
    readonly value: unknown;
    /** The value's source text, if known. */
    readonly source: string | undefined;
  };

/** An entry of a mapping. */
export interface StateEntry {
  readonly key: string;
  /** The line of the key. */
  readonly line: number;
  readonly value: StateNode;
}

/** An error in a state file, for which KPNG would also refuse it. */
export class StateError extends Error {
  override readonly name = "StateError";
  /** `line` counts from 1. */
  constructor(message: string, readonly line: number) {
    super(message);
  }
}

/** A YAML syntax error in a state file. */
export class StateSyntaxError extends StateError {}
