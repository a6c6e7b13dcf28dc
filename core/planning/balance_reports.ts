import type { Problem, ReportProblems } from "../problems/mod.ts";
import type { ServiceKey, TrackedChanges, Tracking } from "../tracking/mod.ts";
import { type BalanceOptions, balanceRequest } from "./balance.ts";

/** Reports the balancing annotations that have no effect, once for each service. */
export interface BalanceReports {
  /** Looks at the services that changed. */
  update(changes: Pick<TrackedChanges, "services">): void;
}

/** The dependencies of `createBalanceReports`. */
export interface BalanceReportsOptions {
  readonly tracking: Pick<Tracking, "services">;
  readonly balance: BalanceOptions;
  /** Receives the problems; each service is a scope. */
  readonly onProblems: ReportProblems;
  /** Called with each new problem of a service, for its Event. */
  readonly onProblem?: (service: ServiceKey, problem: Problem) => void;
}

/** Creates the reports, without problems at first. */
export function createBalanceReports(options: BalanceReportsOptions): BalanceReports {
  const { tracking, balance, onProblems, onProblem } = options;
  const reported = new Map<ServiceKey, string>();
  return {
    update({ services }) {
      for (const key of services) {
        const service = tracking.services.get(key);
        const sentences = service?.balancing === undefined ? [] : balanceRequest(service, balance).problems;
        const detail = sentences.join("; ");
        if (detail === (reported.get(key) ?? "")) continue;
        if (detail === "") reported.delete(key);
        else reported.set(key, detail);
        const problems: Problem[] = detail === "" ? [] : [{ code: "balance-ignored", subject: key, detail }];
        onProblems(`balance of ${key}`, problems);
        for (const problem of problems) onProblem?.(key, problem);
      }
    },
  };
}
