/**
 * The vocabulary of problems: every kind of problem with its code, severity, title and fix, and the active problems.
 *
 *   table.ts            every kind of problem: code, severity, title, fix
 *   problem.ts          one occurrence of a problem
 *   board.ts            the active problems of all scopes
 *   object_problems.ts  problems of single objects
 *   process_problems.ts problems of the process, from run to run
 *   finding.ts          results of `sluice check`
 *
 * In: problems by scope, from every room. Out: the active ones, for the log, status, metrics and Events. May touch:
 * nothing.
 */
export {
  createProblemBoard,
  type CurrentProblem,
  type ProblemBoard,
  type ProblemChange,
  type ReportProblems,
} from "./board.ts";
export { type Finding, findingsText, problemFinding, worstOf } from "./finding.ts";
export { createObjectProblems, type ObjectProblems } from "./object_problems.ts";
export { logProblem, type Problem } from "./problem.ts";
export { createProcessProblems, type ProcessProblems } from "./process_problems.ts";
export {
  isProblemCode,
  PROBLEM_CODES,
  type ProblemCode,
  type ProblemKind,
  problemKind,
  PROBLEMS,
  type Severity,
} from "./table.ts";
