/** Lines of styled pieces for a terminal. */
import { durationText } from "../../platform/mod.ts";
import type { StateWords } from "../../answers/control/mod.ts";

/** The room and the colours of a terminal. */
export interface Layout {
  /** The maximum length of a line. */
  readonly columns: number;
  /** The maximum number of lines; Infinity for no limit. */
  readonly rows: number;
  readonly colour: boolean;
}

/** A piece of a line, with an optional style. */
export type Piece = string | readonly [style: Style, text: string];
/** A line of pieces. */
export type Line = readonly Piece[];
/** A style: a weight, or the urgency of a state. */
export type Style = "bold" | "soft" | StateWords["tone"];

const CODES: Readonly<Record<Style, string>> = {
  bold: "\x1b[1m",
  soft: "\x1b[2m",
  good: "\x1b[32m",
  warning: "\x1b[33m",
  bad: "\x1b[31m",
  idle: "\x1b[2m",
};

/** Unlimited lines without colours, for an output that is not a terminal. */
export const PLAIN: Layout = { columns: Infinity, rows: Infinity, colour: false };

/** A state with its dot and its reason. */
export function statePieces({ tone, words, reason }: StateWords): readonly Piece[] {
  return [dot(tone), [tone, words], ...(reason === undefined ? [] : [["soft", `  ${reason}`] as const])];
}

/** The dot before a state. */
export function dot(tone: StateWords["tone"]): Piece {
  return [tone, "● "];
}

/** The time since a moment: `5 s ago`. */
export function ago(nowMs: number, atMs: number): string {
  const ms = nowMs - atMs;
  return ms < 1000 ? "now" : `${durationText(Math.round(ms / 1000) * 1000)} ago`;
}

/** Prints a line. Replaces control characters, so that data from elsewhere cannot control the terminal. */
export function textOf(line: Line, { columns, colour }: Pick<Layout, "columns" | "colour">): string {
  let room = columns, text = "";
  for (const piece of line) {
    const [style, raw] = typeof piece === "string" ? [undefined, piece] : piece;
    // deno-lint-ignore no-control-regex -- terminals interpret these
    const clean = raw.replace(/[\u0000-\u001f\u007f-\u009f]+/g, " ");
    const shown = clean.length <= room ? clean : room > 0 ? `${clean.slice(0, room - 1)}…` : "";
    room -= shown.length;
    text += colour && style !== undefined && shown !== "" ? `${CODES[style]}${shown}\x1b[0m` : shown;
  }
  return text.trimEnd();
}
