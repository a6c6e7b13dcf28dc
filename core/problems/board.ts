import type { Clock, Logger } from "../../platform/mod.ts";
import { isUnreadable, type ProblemCode, problemKind } from "./table.ts";

/** One occurrence: two of the same code and subject are the same problem. Plain data. */
export interface Problem {
  readonly code: ProblemCode;
  /** The subject, of the kind that the table names: `IPv4`, `Service default/web`, `/etc/services.yaml:12`. */
  readonly subject: string;
  /** The details of this occurrence, in a sentence without its full stop. */
  readonly detail: string;
}

/** Logs a problem at its severity: its title, with its code, subject, detail and fix as fields. */
export function logProblem(logger: Logger, { code, subject, detail }: Problem): void {
  const { severity, title, fix } = problemKind(code);
  logger[severity === "error" ? "error" : "warn"](title, { code, subject, detail, fix });
}

/** An active problem. Plain data. */
export interface CurrentProblem extends Problem {
  /** Wall time of its first report, in milliseconds since 1970. */
  readonly sinceMs: number;
  /** Wall time of its last report, in milliseconds since 1970. */
  readonly lastMs: number;
  /** The number of reports since it began. */
  readonly count: number;
}

interface ReportOptions {
  /** Whether the reporter has already logged the problems, with its own details. */
  readonly isLogged?: boolean;
}

/** Replaces the problems of one scope (a worker, an object, a file); missing ones are resolved. */
export type ReportProblems = (scope: string, problems: readonly Problem[], options?: ReportOptions) => void;

/** The start or the end of a problem. */
export interface ProblemChange {
  readonly type: "raised" | "solved";
  readonly problem: Problem;
}

/** The active problems of all scopes. */
export interface ProblemBoard {
  /** Replaces the problems of a scope and logs the differences: new problems, new details, resolved problems. */
  readonly report: ReportProblems;
  /** Errors before warnings; an unreadable source, which explains others, before the rest; then the newest first. A few dozen at most. */
  current(): readonly CurrentProblem[];
  /** The number of problems by code; codes without any are left out. */
  counts(): ReadonlyMap<ProblemCode, number>;
}

const SHOWN = 64;
/** The maximum number of problems kept, so that a cluster full of broken objects cannot exhaust the node's memory. */
const KEPT = 4096;
const SEVERITIES = ["error", "warning"];

/** A board without problems. `onChange` is called when one begins or ends. */
export function createProblemBoard(
  clock: Clock,
  logger: Logger,
  onChange: (change: ProblemChange) => void = () => {},
): ProblemBoard {
  const scopes = new Map<string, Map<string, CurrentProblem>>();
  let kept = 0;

  const replace = (scope: string, problems: readonly Problem[], logger: Logger | undefined) => {
    const before = scopes.get(scope);
    if (before === undefined && problems.length === 0) return;
    const nowMs = clock.now();
    const now = new Map<string, CurrentProblem>();
    for (const problem of problems) {
      const key = `${problem.code} ${problem.subject}`;
      const known = now.get(key) ?? before?.get(key);
      if (known === undefined && kept - (before?.size ?? 0) + now.size >= KEPT) continue;
      const { code, subject, detail } = problem;
      if (logger && detail !== known?.detail) logProblem(logger, problem);
      const count = (known?.count ?? 0) + 1;
      now.set(key, { code, subject, detail, sinceMs: known?.sinceMs ?? nowMs, lastMs: nowMs, count });
      if (known === undefined) onChange({ type: "raised", problem });
    }
    for (const [key, { code, subject, detail, sinceMs }] of before ?? []) {
      if (now.has(key)) continue;
      onChange({ type: "solved", problem: { code, subject, detail } });
      logger?.solved({ code, subject });
      const lastedSeconds = Math.round((nowMs - sinceMs) / 1000);
      logger?.info(`solved: ${problemKind(code).title}`, { code, subject, lastedSeconds });
    }
    kept += now.size - (before?.size ?? 0);
    if (now.size > 0) scopes.set(scope, now);
    else scopes.delete(scope);
  };

  const all = () => scopes.values().flatMap((problems) => problems.values());

  return {
    report: (scope, problems, { isLogged = false } = {}) => replace(scope, problems, isLogged ? undefined : logger),
    current: () => [...all()].sort(mostUrgentFirst).slice(0, SHOWN),
    counts() {
      const counts = new Map<ProblemCode, number>();
      for (const { code } of all()) counts.set(code, (counts.get(code) ?? 0) + 1);
      return counts;
    },
  };
}

function mostUrgentFirst(a: CurrentProblem, b: CurrentProblem): number {
  const rank = ({ code }: Problem) => 2 * SEVERITIES.indexOf(problemKind(code).severity) + (isUnreadable(code) ? 0 : 1);
  return rank(a) - rank(b) || b.sinceMs - a.sinceMs;
}

/** The problems of this process, which survive a restart of the proxy in place: the board of each run takes them over. */
export interface ProcessProblems {
  readonly report: ReportProblems;
  /** Passes the problems to a board, from now on to this one only. A problem that an earlier board has logged is not logged again. */
  attach(report: ReportProblems): void;
}

/** Creates the problems of a process without any. */
export function createProcessProblems(): ProcessProblems {
  const scopes = new Map<string, { readonly problems: readonly Problem[]; readonly options?: ReportOptions }>();
  let board: ReportProblems | undefined;
  return {
    report(scope, problems, options) {
      if (problems.length > 0) scopes.set(scope, { problems, options });
      else scopes.delete(scope);
      board?.(scope, problems, options);
    },
    attach(report) {
      const isLogged = board !== undefined;
      board = report;
      for (const [scope, { problems, options }] of scopes) report(scope, problems, isLogged ? { isLogged } : options);
    },
  };
}

/** Reports the problems of single objects, each object a scope of its own. */
export interface ObjectProblems {
  /**
   * The object `key` was read; `sentences` name the parts of it that cannot be used, and are empty if it is valid. They
   * are one problem. `subject` names the object for an operator.
   */
  set(key: string, subject: string, sentences: readonly string[]): void;
  /** The object `key` is listed and unchanged. */
  confirm(key: string): void;
  /** The object was deleted; its problems end. */
  delete(key: string): void;
  /** Begins a list of all objects; the returned function ends it and deletes those neither set nor confirmed since. */
  startList(): () => void;
}

/**
 * Creates the reports of a group of objects, which have no problems at first.
 * @param prefix distinguishes the scopes of these objects from others
 */
export function createObjectProblems(report: ReportProblems, prefix: string): ObjectProblems {
  const reported = new Set<string>();
  let listed: Set<string> | undefined;

  const remove = (key: string) => {
    if (reported.delete(key)) report(`${prefix} ${key}`, []);
  };

  return {
    set(key, subject, sentences) {
      if (sentences.length === 0) return remove(key);
      listed?.add(key);
      reported.add(key);
      report(`${prefix} ${key}`, [{ code: "object-invalid", subject, detail: sentences.join("; ") }]);
    },
    confirm: (key) => listed?.add(key),
    delete: remove,
    startList() {
      const current = listed = new Set<string>();
      return () => {
        for (const key of [...reported]) if (!current.has(key)) remove(key);
        listed = undefined;
      };
    },
  };
}
