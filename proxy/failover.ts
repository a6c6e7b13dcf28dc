/** Detects endpoints that do not answer, in both families, and reports them. */
import type { Configuration } from "../config/mod.ts";
import { type FailureWatch, type Unreachable, watchFailures } from "../core/failover/mod.ts";
import { type ServiceKey, serviceKeyOf } from "../core/tracking/mod.ts";
import type { Problem, ReportProblems } from "../core/problems/mod.ts";
import type { FailoverFigures } from "../observe/mod.ts";
import { type Clock, type Family, probeTcp } from "../platform/mod.ts";
import { createEndpointProbe } from "./endpoint_probe.ts";
import type { ServedFamily } from "./served_family.ts";

/** The detection of endpoints that do not answer. */
export interface Failover {
  /** The endpoints that are left out; none before the start. */
  unreachable(family: Family): ReadonlySet<string>;
  /** Starts the detection, once the families are planned. */
  start(families: readonly ServedFamily[]): void;
  figures(): FailoverFigures;
}

/** Options of `createFailover`. */
export interface FailoverOptions {
  readonly configuration: Pick<Configuration, "failover">;
  readonly clock: Clock;
  readonly onProblems: ReportProblems;
  /** Called with each new problem of a Service. */
  readonly onProblem: (service: ServiceKey, problem: Problem) => void;
  readonly signal: AbortSignal;
}

const NONE: ReadonlySet<string> = new Set();

/** Creates the detection for all families, with the thresholds of the configuration. */
export function createFailover(options: FailoverOptions): Failover {
  const { configuration: { failover }, clock, onProblems, onProblem, signal } = options;
  const watches = new Map<Family, FailureWatch>();
  const probe = createEndpointProbe(failover, (target, timeoutMs) => probeTcp(target, timeoutMs, clock), clock);

  const start = (served: ServedFamily) => {
    const { family } = served;
    const onChange = (unreachable: readonly Unreachable[], changed: ReadonlySet<string>) => {
      served.planAgain(changed);
      onProblems(`unreachable ${family}`, unreachable.map(problemOf));
      for (const one of unreachable) {
        if (!changed.has(one.endpoint)) continue;
        for (const service of new Set(one.servicePorts.map(serviceKeyOf))) onProblem(service, problemOf(one));
      }
    };
    const watch = watchFailures({
      thresholds: {
        attempts: failover.attempts,
        silenceMs: failover.silenceMs,
        recoveryProbes: failover.recoveryProbes,
        trialMs: failover.trialIntervalMs,
      },
      intervalMs: failover.intervalMs,
      recoveryIntervalMs: failover.recoveryIntervalMs,
      read: () => served.attemptCounts(),
      usesOf: served.usesOf,
      probe,
      onChange,
      clock,
      signal,
    });
    watches.set(family, watch);
  };

  return {
    unreachable: (family) => watches.get(family)?.unreachable() ?? NONE,
    start: (families) => families.forEach(start),
    figures: () =>
      Object.fromEntries(
        [...watches].map(([family, watch]) => [family, {
          unreachable: watch.unreachable().size,
          ejections: watch.ejections(),
        }]),
      ),
  };
}

function problemOf({ endpoint, servicePorts }: Unreachable): Problem {
  const [first, ...rest] = servicePorts;
  const names = `${first ?? "no service port"}${rest.length > 0 ? ` and ${rest.length} more` : ""}`;
  const detail = `connection attempts and probes are not answered; left out of ${names} if enough others are left`;
  return { code: "endpoint-unreachable", subject: endpoint, detail };
}
