import type { ReportProblems } from "./board.ts";
import type { Problem } from "./problem.ts";

/** The problems of this process, which outlast a run of the proxy: the board of each run takes them over. */
export interface ProcessProblems {
  readonly report: ReportProblems;
  /** Passes the problems to a board, from now on to this one only. A problem that an earlier board has logged is not logged again. */
  attach(report: ReportProblems): void;
}

/** Creates the problems of a process without any. */
export function createProcessProblems(): ProcessProblems {
  const scopes = new Map<string, readonly Problem[]>();
  let board: ReportProblems | undefined;
  return {
    report(scope, problems, options) {
      if (problems.length > 0) scopes.set(scope, problems);
      else scopes.delete(scope);
      board?.(scope, problems, options);
    },
    attach(report) {
      const isLogged = board !== undefined;
      board = report;
      for (const [scope, problems] of scopes) report(scope, problems, { isLogged });
    },
  };
}
