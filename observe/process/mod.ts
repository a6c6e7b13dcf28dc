/**
 * Observations of a process, for a proxy and `sluice serve`: its metrics, the link to its source, servers that cannot listen.
 *
 * In: reports of the source and of servers. Out: metrics. May touch: nothing.
 */
import type { ProblemBoard } from "../../core/problems/mod.ts";
import { errorText } from "../../platform/mod.ts";
export { type CommonMetrics, type CommonSources, createCommonMetrics } from "./common_metrics.ts";
export { createSourceLink, type SourceLink, type SourceLinkRecord } from "./source_link.ts";

/** Reports that a server cannot listen, with the error of its last try, or with undefined that it listens. */
export function listeningProblem(
  problems: Pick<ProblemBoard, "report">,
  subject: string,
  bindAddress: string | undefined,
): (error: unknown) => void {
  return (error) => {
    const problem = { code: "server-not-listening", subject, detail: `${bindAddress}: ${errorText(error)}` } as const;
    problems.report(subject, error === undefined ? [] : [problem], { isLogged: true });
  };
}
