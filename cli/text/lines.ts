/** Lines of styled pieces for a terminal. */
import { eventText, type StateWords, type Words } from "../../answers/status/mod.ts";
import type { FeedEvent } from "../../observe/mod.ts";
import { durationText, printable, timeOfDay } from "../../platform/mod.ts";

/** How lines are printed. */
export interface Layout {
  readonly columns: number;
  readonly colour: boolean;
}

/** A piece of a line, with an optional style. */
export type Piece = string | readonly [style: Style, text: string];
/** A line of pieces. */
export type Line = readonly Piece[];
/** A style: a weight, or the urgency of a state. */
type Style = "bold" | "soft" | StateWords["tone"];

const CODES: Readonly<Record<Style, string>> = {
  bold: "\x1b[1m",
  soft: "\x1b[2m",
  good: "\x1b[32m",
  warning: "\x1b[33m",
  bad: "\x1b[31m",
  idle: "\x1b[2m",
};

/** Lines of any length without colours. */
export const PLAIN: Layout = { columns: Infinity, colour: false };

/** The layout of lines on standard output: of any length, with colours on a terminal. */
export function layoutOfOutput(): Layout {
  return { columns: Infinity, colour: Deno.stdout.isTerminal() && !Deno.noColor };
}

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

/** Words with the ages of their moments. */
export function wordsText(words: Words, nowMs: number): string {
  return words.map((part) => typeof part === "string" ? part : ago(nowMs, part.atMs)).join("");
}

/** Prints a line, without characters that would control the terminal. */
export function textOf(line: Line, { columns, colour }: Layout): string {
  let room = columns, text = "";
  for (const piece of line) {
    const [style, raw] = typeof piece === "string" ? [undefined, piece] : piece;
    const clean = cleanText(raw);
    const shown = clean.length <= room ? clean : room > 0 ? `${clean.slice(0, room - 1)}…` : "";
    room -= shown.length;
    text += colour && style !== undefined && shown !== "" ? `${CODES[style]}${shown}\x1b[0m` : shown;
  }
  return text.trimEnd();
}

/** Rows of cells as lines, with each column as wide as its widest cell, and two spaces in between. */
export function alignedLines(rows: readonly (readonly Piece[])[]): readonly Line[] {
  const width = (cell: Piece) => cleanText(typeof cell === "string" ? cell : cell[1]).length;
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => width(row[column]!))));
  return rows.map((row) => row.flatMap((cell, column) => [cell, " ".repeat(widths[column]! - width(cell) + 2)]));
}

/** A text without characters that would control the terminal. */
function cleanText(text: string): string {
  return printable(text).replaceAll("\t", " ");
}

/** An event as a line: `14:03:07 shop/cart: 2 → 0 endpoints, in effect after 12 ms`. The time is in UTC. */
export function eventLine(event: FeedEvent): string {
  const { atMs, subject, family, tone } = event;
  const about = family === undefined ? subject : `${subject} (${family})`;
  return textOf([["soft", timeOfDay(atMs)], " ", ["bold", about], ": ", [tone, eventText(event)]], layoutOfOutput());
}
