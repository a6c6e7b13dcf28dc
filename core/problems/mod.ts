/**
 * The vocabulary of problems: every kind of problem with its code, severity, title and fix, and the active problems.
 *
 *   table.ts            every kind of problem: code, severity, title, fix
 *   board.ts            the active problems of all scopes; those of single objects, and of the process from run to run
 *   finding.ts          results of `sluice check`
 *
 * In: problems by scope, from every room. Out: the active ones, for the log, status, metrics and Events. May touch:
 * nothing.
 */
export * from "./board.ts";
export * from "./finding.ts";
export * from "./table.ts";
