import { type Clock, VERSION } from "../platform/mod.ts";
import type { FamilyHealth } from "../core/channel/mod.ts";
import type { Family, ProxyMode, SyncReport } from "../core/model/mod.ts";
import { type ServiceKey, splitServiceKey } from "../core/tracking/mod.ts";
import type { EventRecorder } from "./events.ts";

/** Tells an administrator what he must know of this node's proxy: that it starts, and what it cannot do. */
export interface NodeEvents {
  report(report: SyncReport): void;
  workerHealth(family: Family, health: FamilyHealth): void;
  /** There is no Node object of this node's name. */
  nodeMissing(message: string): void;
  /** The health check node port of a service does not open: an Event of the Service, as kube-proxy writes it. */
  healthCheckFailed(service: ServiceKey, port: number, why: string): void;
}

/** How long a family may fail to sync before that is news: what mends itself at the next try is none. */
const FAILING_FOR_MS = 10_000;

/** Says that the proxy starts, and watches the families from now on. */
export function createNodeEvents(recorder: EventRecorder, mode: ProxyMode, clock: Clock): NodeEvents {
  const failingSinceMs = new Map<Family, number>();
  const told = new Set<Family>();
  recorder.record("Normal", "Starting", "", `Sluice ${VERSION} starts in ${mode} mode`);

  const tellFailure = (family: Family, reason: string, message: string) => {
    told.add(family);
    recorder.record("Warning", reason, family, `${family}: ${message}`);
  };

  return {
    report({ family, ok, problems }) {
      const ofServices = problems.filter(({ servicePort }) => servicePort !== undefined);
      const [first] = ofServices;
      if (first) {
        const rest = ofServices.length - 1;
        recorder.record(
          "Warning",
          "ServiceNotProgrammed",
          family,
          `${family}: ${first.servicePort}${
            rest > 0 ? ` and ${rest} more` : ""
          } cannot be programmed: ${first.message}`,
        );
      }
      if (ok) {
        failingSinceMs.delete(family);
        if (told.delete(family)) recorder.record("Normal", "Synced", family, `${family}: the kernel is in sync again`);
        return;
      }
      const now = clock.monotonic();
      const since = failingSinceMs.get(family) ?? now;
      failingSinceMs.set(family, since);
      if (now - since < FAILING_FOR_MS) return;
      const why = problems.find(({ servicePort }) => servicePort === undefined)?.message ?? "the sync failed";
      tellFailure(family, "FailedToSync", `changes of services do not reach the kernel: ${why}`);
    },
    nodeMissing(message) {
      recorder.record("Warning", "NodeNotFound", "", message);
    },
    workerHealth(family, health) {
      if (health.state === "restarting") tellFailure(family, "WorkerRestarted", health.reason);
      if (health.state === "unfit" && !health.unsupported) tellFailure(family, "CannotBeServed", health.reason);
    },
    healthCheckFailed(service, port, why) {
      recorder.record(
        "Warning",
        "FailedToStartServiceHealthcheck",
        `${service} ${port}`,
        `health check node port ${port} is not served on this node: ${why}`,
        { kind: "Service", ...splitServiceKey(service), uid: service, action: "Listen" },
      );
    },
  };
}
