import type { ReportProblems } from "./board.ts";

/** Reports the problems of single objects, each object a scope of its own. */
export interface ObjectProblems {
  /**
   * The object `key` was read; `sentences` name the parts of it that cannot be used, and are empty if it is valid. They
   * are one problem. `subject` names the object for an operator.
   */
  set(key: string, subject: string, sentences: readonly string[]): void;
  /** The object `key` is listed and unchanged. */
  confirm(key: string): void;
  /** The object is gone, and its problems with it. */
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
    confirm(key) {
      listed?.add(key);
    },
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
