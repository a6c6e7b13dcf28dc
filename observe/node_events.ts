import type { FamilyHealth } from "../core/channel/mod.ts";
import {
  type Family,
  type ProxyMode,
  refusedPorts,
  type ServicePortName,
  type SyncProblem,
  type SyncReport,
} from "../core/model/mod.ts";
import { type Problem, type ProblemCode, problemKind } from "../core/problems/mod.ts";
import { type ServiceKey, serviceKeyOf, splitServiceKey } from "../core/tracking/mod.ts";
import { type Clock, durationText, plural, VERSION } from "../platform/mod.ts";
import type { EventObject, EventRecorder } from "./events.ts";
import type { SourceLink } from "./process/mod.ts";
import { failureOf } from "./status.ts";

/** The Events of this node's proxy: its start, and the problems that need an administrator. */
export interface NodeEvents {
  report(report: SyncReport): void;
  workerHealth(family: Family, health: FamilyHealth): void;
  /** Notes the state of the link to the API server, and reports that it is back after a longer time. */
  link(link: SourceLink): void;
  /** Reports that this node's Node object does not exist. */
  nodeMissing(message: string): void;
  /**
   * Records an Event of this problem if the table names one. For problems that none of the other methods reports; Services
   * have their own Events (`serviceProblem`).
   */
  problem(problem: Problem): void;
  /** Records an Event of this problem of a Service; the action is one word. */
  serviceProblem(service: ServiceKey, problem: Problem, action: string): void;
  /** Records something good, as one Event for each reason and subject. */
  normal(reason: string, subject: string, message: string): void;
  /** Reports that a health check node port cannot be opened, as an Event of the Service like kube-proxy's. */
  healthCheckFailed(service: ServiceKey, port: number, why: string): void;
}

/** A family or a link that fails for less than this recovers without help and needs no Event. */
const FAILING_FOR_MS = 10_000;

/** Creates the Events of a proxy and records its start. */
export function createNodeEvents({ recorder, mode, sharesUplink, clock }: {
  readonly recorder: EventRecorder;
  readonly mode: ProxyMode;
  /** Whether the node shares its uplink with others: an Event that needs no action is not worth a connection of its own. */
  readonly sharesUplink: boolean;
  readonly clock: Clock;
}): NodeEvents {
  const warn = (code: ProblemCode, about: string, message: string, object?: EventObject) =>
    recorder.record("Warning", reasonOf(code), about, message, object);
  const normal: NodeEvents["normal"] = (reason, about, message) => recorder.record("Normal", reason, about, message);
  const failingSinceMs = new Map<Family, number>();
  const failed = new Set<Family>();
  const refused: Record<Family, string[]> = { IPv4: [], IPv6: [] };
  let disconnectedMs: number | undefined;
  if (!sharesUplink) normal("Starting", "", `Sluice ${VERSION} starts in ${mode} mode`);

  const reportFailure = (family: Family, code: ProblemCode, message: string) => {
    failed.add(family);
    warn(code, family, `${family}: ${message}`);
  };

  return {
    report(report) {
      const { family, ok, problems, counts } = report;
      const repaired = counts.drift_repaired ?? 0;
      if (repaired > 0) {
        const message = `${family}: ${plural(repaired, "change")} of services' rules by other programs repaired`;
        recorder.record("Warning", "RulesRepaired", family, message);
      }
      reportRefused(recorder, family, problems, refused[family]);
      if (ok) {
        const accepted = refused[family].filter((name) => problems.every(({ servicePort }) => servicePort !== name));
        for (const name of accepted) {
          const message = `${name} (${family}) is in effect on this node again`;
          recorder.record("Normal", "ServiceProgrammed", `${name} ${family}`, message, serviceOf(name));
        }
        refused[family] = refused[family].filter((name) => !accepted.includes(name));
        failingSinceMs.delete(family);
        if (failed.delete(family)) normal("Synced", family, `${family}: the kernel is in sync again`);
        return;
      }
      const now = clock.monotonic();
      const since = failingSinceMs.get(family) ?? now;
      failingSinceMs.set(family, since);
      if (now - since < FAILING_FOR_MS) return;
      reportFailure(family, "sync-failed", `${problemKind("sync-failed").title}: ${failureOf(report)}`);
    },
    link({ state, sinceMs, server }) {
      if (state !== "connected") {
        if (state === "disconnected") disconnectedMs ??= sinceMs;
        return;
      }
      const lastedMs = sinceMs - (disconnectedMs ?? sinceMs);
      disconnectedMs = undefined;
      if (lastedMs < FAILING_FOR_MS || sharesUplink) return;
      const message = `${server} was unreachable for ${durationText(lastedMs)}; changes are applied again`;
      normal("SourceRestored", "", message);
    },
    nodeMissing: (message) => warn("node-missing", "", message),
    workerHealth(family, health) {
      if (health.state === "restarting") reportFailure(family, "worker-failed", health.reason);
      if (health.state === "unfit" && !health.unsupported) reportFailure(family, "setup-failed", health.reason);
    },
    problem({ code, subject, detail }) {
      const { event, title, about } = problemKind(code);
      if (event !== undefined && about !== "Service" && about !== "endpoint") {
        recorder.record("Warning", event, subject, `${subject}: ${title}: ${detail}`);
      }
    },
    serviceProblem(service, { code, detail }, action) {
      warn(code, service, `${problemKind(code).title}: ${detail}`, serviceObject(service, action));
    },
    normal,
    healthCheckFailed(service, port, why) {
      const message = `health check node port ${port} is not served on this node: ${why}`;
      warn("health-check-port-closed", `${service} ${port}`, message, serviceObject(service, "Listen"));
    },
  };
}

/** The number of refused services in a sync that get an Event of their own. */
const MOST_REFUSED = 5;

/** Reports refused services: one Event of the node, and one of each of the first Services, which are added to `known`. */
function reportRefused(
  recorder: EventRecorder,
  family: Family,
  problems: readonly SyncProblem[],
  known: string[],
): void {
  const ofServices = refusedPorts(problems);
  const [first] = ofServices;
  if (first === undefined) return;
  const reason = reasonOf("rules-refused"), rest = ofServices.length - 1;
  const names = `${first.servicePort}${rest > 0 ? ` and ${rest} more` : ""}`;
  recorder.record("Warning", reason, family, `${family}: ${names} cannot be programmed: ${first.message}`);
  for (const { servicePort, message } of ofServices.slice(0, MOST_REFUSED)) {
    if (!known.includes(servicePort)) known.push(servicePort);
    const text = `${servicePort} (${family}) is not in effect on this node: ${message}`;
    recorder.record("Warning", reason, `${servicePort} ${family}`, text, serviceOf(servicePort));
  }
}

function serviceOf(servicePort: ServicePortName): EventObject {
  return serviceObject(serviceKeyOf(servicePort), "Program");
}

function serviceObject(service: ServiceKey, action: string): EventObject {
  return { kind: "Service", ...splitServiceKey(service), action };
}

function reasonOf(code: ProblemCode): string {
  const { event } = problemKind(code);
  if (event === undefined) throw new Error(`no Event reports ${code}`);
  return event;
}
