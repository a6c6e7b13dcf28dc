/** Detects endpoints that do not answer, in both families, and reports them. */
import type { Configuration } from "../config/mod.ts";
import { type FailureWatch, type Unreachable, watchFailures } from "../core/failover/mod.ts";
import { type ServiceKey, serviceKeyOf } from "../core/tracking/mod.ts";
import type { Problem, ReportProblems } from "../core/problems/mod.ts";
import type { FailoverFigures } from "../observe/mod.ts";
import { type Clock, type Family, probeTcp, sleep, splitHostPort } from "../platform/mod.ts";
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
  const probe = createProbe(failover, clock);

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

/**
 * Probes the endpoint's own port and the liveness port of its address: where a process is too busy to accept connections,
 * its host still refuses or accepts others. An attempt that this host cannot make counts as an answer.
 */
function createProbe({ probes, probeTimeoutMs, livenessPort }: Configuration["failover"], clock: Clock) {
  return async (endpoint: string, kind: "single" | "thorough"): Promise<boolean> => {
    const { address, port } = splitHostPort(endpoint);
    const rounds = kind === "thorough" ? probes : 1;
    const answered = Promise.withResolvers<true>();
    let hasAnswered = false;
    const attempts = Array.from({ length: rounds }, (_, round) => round).flatMap((round) =>
      [...new Set([port, livenessPort])].map(async (port) => {
        // Spread over the first half of the time, so that a short loss of packets does not take them all, up to the first answer.
        const delayMs = probeTimeoutMs / 2 / rounds * round;
        if (delayMs > 0) await sleep(clock, delayMs);
        if (hasAnswered || await probeTcp({ address, port }, probeTimeoutMs - delayMs, clock) === "silent") return;
        hasAnswered = true;
        answered.resolve(true);
      })
    );
    return await Promise.race([answered.promise, Promise.all(attempts).then(() => false)]);
  };
}
