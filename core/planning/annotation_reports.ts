import type { Problem, ProblemCode, ReportProblems } from "../problems/mod.ts";
import type { FrontendKind } from "../model/mod.ts";
import type { Service } from "../objects/mod.ts";
import type { ServiceKey, TrackedChanges, Tracking } from "../tracking/mod.ts";
import { type BalanceOptions, balanceRequest } from "./balance.ts";
import { nodePortAddressesOf } from "./node_port_addresses.ts";

/** The dependencies of `createAnnotationReports`. */
interface AnnotationReportsOptions {
  readonly tracking: Pick<Tracking, "services">;
  readonly balance: BalanceOptions;
  /** Receives the problems; each service is a scope. */
  readonly onProblems: ReportProblems;
  /** Called with each new problem of a service, and the action that it concerns, for its Event. */
  readonly onProblem: (service: ServiceKey, problem: Problem, action: string) => void;
}

/** A group of annotations, whose problems are reported together. */
interface AnnotationKind {
  readonly code: ProblemCode;
  readonly about: string;
  readonly action: string;
  /** The kind of frontends that it concerns; absent if it concerns all. */
  readonly frontends?: FrontendKind;
  problemsOf(service: Service, balance: BalanceOptions): readonly string[];
}

const KINDS: readonly AnnotationKind[] = [
  {
    code: "balance-ignored",
    about: "balance",
    action: "Balance",
    problemsOf: (service, balance) => balanceRequest(service, balance).problems,
  },
  {
    code: "node-port-addresses-invalid",
    about: "node port addresses",
    action: "SelectNodePortAddresses",
    frontends: "nodePort",
    problemsOf: (service) => nodePortAddressesOf(service).problems,
  },
];

/** The annotations of a service that have no effect on a kind of frontends, one sentence each. */
export function annotationProblems(
  service: Service,
  balance: BalanceOptions,
  kind: FrontendKind,
): readonly string[] {
  return KINDS.filter(({ frontends = kind }) => frontends === kind).flatMap((one) => one.problemsOf(service, balance));
}

/** Returns a function that reports the annotations of changed services that have no effect, once for each service and kind. */
export function createAnnotationReports(
  options: AnnotationReportsOptions,
): (changes: Pick<TrackedChanges, "services">) => void {
  const { tracking, onProblems, onProblem } = options;
  const kinds = KINDS.map((kind) => ({ ...kind, reported: new Map<ServiceKey, string>() }));
  return ({ services }) => {
    for (const key of services) {
      const service = tracking.services.get(key);
      for (const { code, about, action, problemsOf, reported } of kinds) {
        const detail = service === undefined ? "" : problemsOf(service, options.balance).join("; ");
        if (detail === (reported.get(key) ?? "")) continue;
        if (detail === "") reported.delete(key);
        else reported.set(key, detail);
        const problems: Problem[] = detail === "" ? [] : [{ code, subject: key, detail }];
        onProblems(`${about} of ${key}`, problems);
        for (const problem of problems) onProblem(key, problem, action);
      }
    }
  };
}
