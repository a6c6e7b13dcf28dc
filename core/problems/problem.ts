import type { Fields, Logger } from "../../platform/mod.ts";
import { type ProblemCode, problemKind } from "./table.ts";

/** One occurrence: two of the same code and subject are the same problem. Plain data. */
export interface Problem {
  readonly code: ProblemCode;
  /** The subject, of the kind that the table names: `IPv4`, `Service default/web`, `/etc/services.yaml:12`. */
  readonly subject: string;
  /** The details of this occurrence, in a sentence without its full stop. */
  readonly detail: string;
}

/** Logs a problem at its severity: its title, with its code, subject, detail and fix as fields. */
export function logProblem(logger: Logger, { code, subject, detail }: Problem, fields?: Fields): void {
  const { severity, title, fix } = problemKind(code);
  logger[severity === "error" ? "error" : "warn"](title, { code, subject, detail, ...fields, fix });
}
