/** The status of a running proxy; loaded when it is first needed. */
import { type FamilyStatusDetails, type ProxyStatus, sentenceOf, viewOf } from "../answers/status/mod.ts";
import { type Configuration, isServer, sourceText } from "../config/mod.ts";
import type { CountsOfPorts } from "../core/model/mod.ts";
import { INTERNAL_SERVICE } from "../core/planning/mod.ts";
import type { ProblemBoard } from "../core/problems/mod.ts";
import type { Tracking } from "../core/tracking/mod.ts";
import type { SourceLinkRecord } from "../observe/process/mod.ts";
import type { ChangeFeed, FamilyRecord, ProxyHealth, StatusRecorder } from "../observe/mod.ts";
import { type Clock, FAMILIES, isLoopback, otherFamily, VERSION } from "../platform/mod.ts";
import type { RunningFeatures } from "./features.ts";
import type { ServedFamily } from "./served_family.ts";

/** Parts of a running proxy that its answers are taken from. */
export interface RunningProxy {
  readonly configuration: Configuration;
  readonly tracking: Tracking;
  readonly families: readonly ServedFamily[];
  readonly health: ProxyHealth;
  readonly recorder: StatusRecorder;
  readonly problems: Pick<ProblemBoard, "current">;
  readonly feed: Pick<ChangeFeed, "read">;
  /** The link to the source; meaningless if the source is a file. */
  readonly link: Pick<SourceLinkRecord, "current">;
  readonly features: Pick<RunningFeatures, "counts" | "status">;
  readonly clock: Clock;
  readonly startedAtMs: number;
}

/** Returns the state of a running proxy in words. */
export function headlineOf(proxy: RunningProxy): string {
  return sentenceOf(viewOf(statusOf(proxy)).state);
}

/** Returns the status of a running proxy. */
export function statusOf(
  { configuration, tracking, families, health, recorder, problems, link, features, clock, startedAtMs }: RunningProxy,
): ProxyStatus {
  const { nodeName, mode, source } = configuration;
  const { services, endpoints } = tracking;
  const { healthy, families: judged } = health.status();
  const records = recorder.families();
  return {
    version: VERSION,
    node: nodeName,
    nodeAddresses: addressesOf(tracking),
    zone: tracking.node.state().zone,
    kernel: Deno.osRelease(),
    mode,
    source: sourceText(source),
    link: isServer(source) ? link.current() : undefined,
    atMs: clock.now(),
    startedAtMs,
    healthy,
    nodeEligible: health.nodeEligible(),
    nodeKnown: tracking.node.state().known,
    stamp: stampOf(tracking, families, records, features.counts()),
    services: [...services.keys()].length,
    changesToPlan: FAMILIES.reduce((sum, family) => sum + endpoints[family].pending(), services.pending()),
    residentBytes: Deno.memoryUsage().rss,
    families: families.map((served): FamilyStatusDetails => ({
      ...records.find(({ family }) => family === served.family)!,
      healthy: judged.find(({ family }) => family === served.family)?.healthy ?? true,
      revision: served.basis.revision(),
      servicePorts: [...served.basis.planner.ports()].filter(({ service }) => service !== INTERNAL_SERVICE).length,
      changesPending: served.changesPending(),
      noLocalEndpoints: served.noLocalEndpoints(),
      features: features.status(served.family),
    })),
    features: features.status(),
    problems: problems.current(),
  };
}

function addressesOf({ node }: Tracking): readonly string[] {
  const { nodeIPs, primaryFamily } = node.state();
  return [primaryFamily, otherFamily(primaryFamily)].map((family) => nodeIPs[family]).filter((address) =>
    !isLoopback(address)
  );
}

/** Returns a text that changes whenever the input of planning, its result, or the state in effect changes. */
function stampOf(
  { services, endpoints, node }: Tracking,
  families: readonly ServedFamily[],
  records: readonly FamilyRecord[],
  counts: CountsOfPorts | undefined,
): string {
  const changes = [services, ...FAMILIES.map((family) => endpoints[family])].flatMap((tracker) => [
    tracker.total(),
    tracker.pending(),
  ]);
  const revisions = families.map(({ basis }) => basis.revision());
  const syncs = records.map(({ syncs: [last] }) => last && `${last.endedAtMs}${last.ok ? "" : "!"}`);
  const counted = FAMILIES.map((family) => counts?.lastReadMs(family) ?? "");
  return [...changes, ...revisions, ...syncs, node.state().zone, ...counted].join(" ").trimEnd();
}
