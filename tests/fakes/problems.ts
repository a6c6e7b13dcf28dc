import type { Problem, ReportProblems } from "../../core/problems/mod.ts";

/** Passes on each problem that the last report of its scope did not have, as a board logs it. */
export function sayProblems(say: (subject: string, detail: string) => void): ReportProblems {
  const scopes = new Map<string, readonly Problem[]>();
  return (scope, problems, { isLogged = false } = {}) => {
    if (isLogged) return;
    const before = scopes.get(scope) ?? [];
    scopes.set(scope, problems);
    for (const { code, subject, detail } of problems) {
      const isKnown = before.some((one) => one.code === code && one.subject === subject && one.detail === detail);
      if (!isKnown) say(subject, detail);
    }
  };
}

/** Fails where a problem is reported. */
export function failOnProblems(_scope: string, [problem]: readonly Problem[]): void {
  if (problem) throw new Error(`${problem.subject}: ${problem.detail}`);
}
