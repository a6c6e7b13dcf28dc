/** Results of the checks of `sluice check`. */
import { type ProblemCode, problemKind } from "./table.ts";

/** `green`: fine; `yellow`: works with a limitation; `red`: the proxy cannot do its job. */
type CheckVerdict = "green" | "yellow" | "red";

/** Outcome of one check. */
export interface Finding {
  /** Subject in one or two words: `nft`, `API server`. */
  readonly name: string;
  readonly verdict: CheckVerdict;
  /** Result as a sentence fragment that follows the name. */
  readonly message: string;
  /** The code of the problem; set unless the verdict is green. */
  readonly code?: ProblemCode;
  /** The fix; set unless the verdict is green. */
  readonly fix?: string;
}

/** A finding that is not green: its verdict is the severity of the code, its fix the table's unless a better one is known. */
export function problemFinding(name: string, code: ProblemCode, message: string, fix?: string): Finding {
  const kind = problemKind(code);
  return { name, verdict: kind.severity === "error" ? "red" : "yellow", code, message, fix: fix ?? kind.fix };
}

const SEVERITY: readonly CheckVerdict[] = ["green", "yellow", "red"];

/** Returns the worst verdict; green for an empty list. */
export function worstOf(findings: readonly Finding[]): CheckVerdict {
  return SEVERITY[Math.max(0, ...findings.map(({ verdict }) => SEVERITY.indexOf(verdict)))]!;
}

const COLORS: Readonly<Record<CheckVerdict, number>> = { green: 32, yellow: 33, red: 31 };

/** Formats findings as aligned lines: verdict, name, message, fix, code. */
export function findingsText(findings: readonly Finding[], colored = false): string {
  const width = Math.max(...findings.map(({ name }) => name.length));
  return findings.map(({ verdict, name, message, code, fix }) => {
    const word = verdict.padEnd(6);
    const sign = colored ? `\x1b[${COLORS[verdict]}m${word}\x1b[0m` : word;
    const advice = `${fix === undefined ? "" : `; fix: ${fix}`}${code === undefined ? "" : ` (${code})`}`;
    return `${sign}  ${name.padEnd(width)}  ${message}${advice}\n`;
  }).join("");
}
