/** Sessions in the project's pages: commands with their output, which a suite runs and compares. */

/** A command of a session, and the output that the page shows. */
export interface Step {
  readonly command: string;
  readonly output: readonly string[];
}

/** A block of a page with commands after `$ `, which one shell runs in order. */
export interface Session {
  /** The line of the page at which it starts, from 1. */
  readonly line: number;
  /** Its number of lines. */
  readonly length: number;
  readonly steps: readonly Step[];
  /** The marker before the block; undefined without one. */
  readonly marker: string | undefined;
}

const INDENT = "    ";
const PROMPT = `${INDENT}$ `;

/**
 * Finds the sessions of a page: indented blocks that begin with `$ `. A block ends before the first line of text. A comment
 * `<!-- session: TEXT -->` before a block is its marker.
 */
export function sessionsOf(text: string): readonly Session[] {
  const lines = text.split("\n"), sessions: Session[] = [];
  for (let i = 0; i < lines.length; i++) {
    if (!lines[i]!.startsWith(PROMPT)) continue;
    let end = i;
    while (end < lines.length && (lines[end] === "" || lines[end]!.startsWith(INDENT))) end++;
    while (lines[end - 1] === "") end--;
    const marker = /^<!-- session: (.*) -->$/.exec(lines[i - 1] || lines[i - 2] || "")?.[1];
    sessions.push({ line: i + 1, length: end - i, steps: stepsOf(lines.slice(i, end)), marker });
    i = end;
  }
  return sessions;
}

function stepsOf(lines: readonly string[]): readonly Step[] {
  const steps: { command: string; output: string[] }[] = [];
  for (const line of lines) {
    if (line.startsWith(PROMPT)) steps.push({ command: line.slice(PROMPT.length), output: [] });
    else steps.at(-1)!.output.push(line.slice(INDENT.length));
  }
  return steps.map(({ command, output }) => ({ command, output: withoutEmptyEnd(output) }));
}

/** The lines without empty ones at the end, which separate commands. */
export function withoutEmptyEnd(lines: readonly string[]): readonly string[] {
  return lines.slice(0, lines.findLastIndex((line) => line !== "") + 1);
}

/** The page with the steps' new outputs in place of the old ones, in the order of its sessions. */
export function rewritten(text: string, outputs: ReadonlyMap<Session, readonly (readonly string[])[]>): string {
  const lines = text.split("\n");
  for (const [{ line, length, steps }, found] of [...outputs].sort(([a], [b]) => b.line - a.line)) {
    const block = steps.flatMap(({ command, output: before }, i) => {
      const output = same(before, found[i]!) ? before : found[i]!;
      const isLast = i === steps.length - 1;
      return [
        PROMPT + command,
        ...output.map((one) => one === "" ? "" : INDENT + one),
        ...isLast || output.length === 0 ? [] : [""],
      ];
    });
    lines.splice(line - 1, length, ...block);
  }
  return lines.join("\n");
}

/**
 * Whether an output is what a page shows, but for times, durations, sizes and numbers of processes. A line `…` of the page stands
 * for any lines.
 */
export function same(shown: readonly string[], output: readonly string[]): boolean {
  const pattern = shown.map((line) => line.trim() === "…" ? "[^]*" : RegExp.escape(normal(line))).join("\n");
  return new RegExp(`^${pattern}$`).test(output.map(normal).join("\n"));
}

/** A line without what differs from run to run, and with single spaces, since columns follow it. */
function normal(line: string): string {
  return line
    .replace(/ +/g, " ").trimEnd()
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replace(/\b\d\d:\d\d(:\d\d)?\b(?!:)/g, "CLOCK")
    .replace(/(last sync|started) (now|\d).*$/, "$1 N").replace(/kernel \d\S*/, "kernel N,")
    .replace(/\d+( [Ff]\.{4} )/, "N$1").replace(/:\d{5}(?= →)/g, ":PORT")
    .replace(/no-endpoints \d+/, "no-endpoints N").replace(
      /\b(\d+(?:\.\d+)?k? ){2}(?=- in effect|no-endpoints)/,
      "RATES ",
    )
    .replace(/\b\d+(\.\d+)? (ms|s|min|h|MB|kB|days?)\b/g, "N")
    .replace(/\b(pid|revision|commit) \w+/g, "$1 N");
}
