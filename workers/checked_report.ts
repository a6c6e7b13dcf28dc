/**
 * Checks the messages of a family's worker: they may only contain problem codes of the table, because they become labels of
 * metrics.
 */
import type { ModeDescription } from "../backends/contract/mod.ts";
import { isCommonFigure, type SyncReport } from "../core/model/mod.ts";
import { isProblemCode, type Problem } from "../core/problems/mod.ts";

/** The problems of a worker whose code is in the table. */
export function checkedProblems(problems: readonly Problem[]): readonly Problem[] {
  return problems.filter(({ code }) => isProblemCode(code));
}

/**
 * Sanitizes a report of a worker in this mode: a problem with an unknown code becomes `sync-failed`, and a count that is
 * undeclared or not a finite number is dropped.
 */
export function checkedReport(report: SyncReport, mode: Pick<ModeDescription, "figures">): SyncReport {
  const problems = report.problems.map((problem) =>
    isProblemCode(problem.code) ? problem : { ...problem, code: "sync-failed" as const }
  );
  const isDeclared = (name: string) => isCommonFigure(name) || Object.hasOwn(mode.figures, name);
  const figures = Object.fromEntries(
    Object.entries(report.figures).filter(([name, value]) => isDeclared(name) && Number.isFinite(value)),
  );
  return { ...report, problems, figures };
}
