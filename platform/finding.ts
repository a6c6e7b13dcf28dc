/** What a preflight finds: one line for each thing that was looked at. */

/** `green` is as it should be; `yellow` works, with a loss that should be known; `red` keeps the proxy from its work. */
export type Verdict = "green" | "yellow" | "red";

/** One thing that was looked at. */
export interface Finding {
  /** What it is, in a word or two: `nft`, `API server`. */
  readonly name: string;
  readonly verdict: Verdict;
  /** What was found, in part of a sentence. */
  readonly says: string;
  /** What to do about it; there unless it is green. */
  readonly mend?: string;
}

const SEVERITY: readonly Verdict[] = ["green", "yellow", "red"];

/** The worst verdict of all; green where there is none. */
export function worstOf(findings: readonly Finding[]): Verdict {
  return SEVERITY[Math.max(0, ...findings.map(({ verdict }) => SEVERITY.indexOf(verdict)))]!;
}

const COLORS: Readonly<Record<Verdict, number>> = { green: 32, yellow: 33, red: 31 };

/** The findings as lines: verdict, name, what was found, and what to do about it. */
export function findingsText(findings: readonly Finding[], colored = false): string {
  const width = Math.max(...findings.map(({ name }) => name.length));
  return findings.map(({ verdict, name, says, mend }) => {
    const word = verdict.padEnd(6);
    const sign = colored ? `\x1b[${COLORS[verdict]}m${word}\x1b[0m` : word;
    return `${sign}  ${name.padEnd(width)}  ${says}${mend === undefined ? "" : `; to mend it: ${mend}`}\n`;
  }).join("");
}
