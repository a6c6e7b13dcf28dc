import type { ToolCall } from "../tools/mod.ts";
import type { DifferentLine } from "./line_difference.ts";
import type { RehearsedCall } from "./runner.ts";

/** One place in the kernel that is not as it should be. */
export interface Difference {
  /** `nat KUBE-SERVICES`, `map services`; the tool where there is nothing to compare by. */
  readonly place: string;
  /** What is wrong with it as a whole, where it is more than its lines. */
  readonly what: "differs" | "missing" | "unwanted";
  readonly lines: readonly DifferentLine[];
}

/** Gathers what a rehearsal reads and would change, as differences. */
export interface Differences {
  readonly onRead: (call: ToolCall, line: string) => void;
  readonly onChange: (call: RehearsedCall) => void;
  found(): readonly Difference[];
}

/** The lines of pieces that end with a newline each. */
export function* linesOf(pieces: Iterable<string>): Generator<string> {
  for (const piece of pieces) for (const line of piece.split("\n")) if (line !== "") yield line;
}
