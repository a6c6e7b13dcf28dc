import { type Clock, VERSION } from "../platform/mod.ts";
import type { FamilyHealth } from "../core/channel/mod.ts";
import type { Family, ProxyMode, SyncReport } from "../core/model/mod.ts";
import { type ServiceKey, splitServiceKey } from "../core/tracking/mod.ts";
import { type Problem, type ProblemCode, problemKind } from "../core/problems/mod.ts";
import type { EventRecorder } from "./events.ts";

/** The Events of this node's proxy: its start, and the problems that need an administrator. */
export interface NodeEvents {
  report(report: SyncReport): void;
  workerHealth(family: Family, health: FamilyHealth): void;
  /** Reports that this node's Node object does not exist. */
  nodeMissing(message: string): void;
  /** Records an Event of this problem if the table names one. For problems that none of the other methods reports. */
  problem(problem: Problem): void;
  /** Reports that a health check node port cannot be opened, as an Event of the Service like kube-proxy's. */
  healthCheckFailed(service: ServiceKey, port: number, why: string): void;
}

/** A family whose syncs fail for less than this recovers without help and needs no Event. */
const FAILING_FOR_MS = 10_000;

/** Creates the Events of a proxy and records its start. */
export function createNodeEvents(recorder: EventRecorder, mode: ProxyMode, clock: Clock): NodeEvents {
  const failingSinceMs = new Map<Family, number>();
  const failed = new Set<Family>();
  recorder.record("Normal", "Starting", "", `Sluice ${VERSION} starts in ${mode} mode`);

  const reportFailure = (family: Family, code: ProblemCode, message: string) => {
    failed.add(family);
    recorder.record("Warning", reasonOf(code), family, `${family}: ${message}`);
  };

  return {
    report({ family, ok, problems }) {
      const ofServices = problems.filter(({ servicePort }) => servicePort !== undefined);
      const [first] = ofServices;
      if (first) {
        const rest = ofServices.length - 1;
        recorder.record(
          "Warning",
          reasonOf("rules-refused"),
          family,
          `${family}: ${first.servicePort}${
            rest > 0 ? ` and ${rest} more` : ""
          } cannot be programmed: ${first.message}`,
        );
      }
      if (ok) {
        failingSinceMs.delete(family);
        if (failed.delete(family)) {
          recorder.record("Normal", "Synced", family, `${family}: the kernel is in sync again`);
        }
        return;
      }
      const now = clock.monotonic();
      const since = failingSinceMs.get(family) ?? now;
      failingSinceMs.set(family, since);
      if (now - since < FAILING_FOR_MS) return;
      const why = problems.find(({ servicePort }) => servicePort === undefined)?.message ?? "the sync failed";
      reportFailure(family, "sync-failed", `${problemKind("sync-failed").title}: ${why}`);
    },
    nodeMissing(message) {
      recorder.record("Warning", reasonOf("node-missing"), "", message);
    },
    workerHealth(family, health) {
      if (health.state === "restarting") reportFailure(family, "worker-failed", health.reason);
      if (health.state === "unfit" && !health.unsupported) reportFailure(family, "setup-failed", health.reason);
    },
    problem({ code, subject, detail }) {
      const { event, title } = problemKind(code);
      if (event !== undefined) recorder.record("Warning", event, subject, `${subject}: ${title}: ${detail}`);
    },
    healthCheckFailed(service, port, why) {
      recorder.record(
        "Warning",
        reasonOf("health-check-port-closed"),
        `${service} ${port}`,
        `health check node port ${port} is not served on this node: ${why}`,
        { kind: "Service", ...splitServiceKey(service), uid: service, action: "Listen" },
      );
    },
  };
}

/** The reason of the Event that reports a problem. */
function reasonOf(code: ProblemCode): string {
  const { event } = problemKind(code);
  if (event === undefined) throw new Error(`no Event reports ${code}`);
  return event;
}
