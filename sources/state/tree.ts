/** The syntax of a state file, whoever parsed it. */

/** A value of a state file; `line` is the file's line at which it starts, from 1. */
export type StateNode =
  | { readonly kind: "map"; readonly line: number; readonly entries: readonly StateEntry[] }
  | { readonly kind: "list"; readonly line: number; readonly items: readonly StateNode[] }
  | {
    readonly kind: "scalar";
    readonly line: number;
    readonly value: unknown;
    /** How the value is written, where that is known. */
    readonly source: string | undefined;
  };

/** An entry of a mapping. */
export interface StateEntry {
  readonly key: string;
  /** The line of the key. */
  readonly line: number;
  readonly value: StateNode;
}

/** A mistake in a state file, for which KPNG would refuse it, too. */
export class StateError extends Error {
  override readonly name = "StateError";
  /** `line` counts from 1. */
  constructor(message: string, readonly line: number) {
    super(message);
  }
}

/** A mistake in the syntax of a state file: no YAML at all. */
export class StateSyntaxError extends StateError {}
