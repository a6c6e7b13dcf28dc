/** Answers of a running proxy; loaded with the first query. */
import { type Clock, FAMILIES, type Family, isLoopback, otherFamily, VERSION } from "../platform/mod.ts";
import { addressesOfHost, createAnswers, type FamilyBasis } from "../answers/mod.ts";
import { balanceOptions, type Configuration, isServer, sourceText } from "../config/mod.ts";
import { type ControlAnswers, type FamilyStatusDetails, NotReadyError } from "../answers/control/mod.ts";
import type { ChangeFeed, FamilyRecord, ProxyHealth, SourceLinkRecord, StatusRecorder } from "../observe/mod.ts";
import { CANARY_KEY } from "../core/planning/mod.ts";
import type { ProblemBoard } from "../core/problems/mod.ts";
import type { Canaries } from "./canaries.ts";
import type { ServedFamily } from "./served_family.ts";
import type { Traffic } from "./traffic.ts";
import type { Tracking } from "../core/tracking/mod.ts";

/** Parts of a running proxy that its answers are taken from. */
export interface RunningProxy {
  readonly configuration: Configuration;
  readonly tracking: Tracking;
  readonly families: readonly ServedFamily[];
  /** Undefined if traffic metrics are off. */
  readonly traffic: Pick<Traffic, "recorder" | "refresh"> | undefined;
  readonly health: ProxyHealth;
  readonly recorder: StatusRecorder;
  readonly problems: Pick<ProblemBoard, "current">;
  readonly feed: Pick<ChangeFeed, "read">;
  /** The link to the source; meaningless if the source is a file. */
  readonly link: Pick<SourceLinkRecord, "current">;
  readonly canaries: Pick<Canaries, "status">;
  readonly clock: Clock;
  readonly startedAtMs: number;
}

/** Creates the answers of a running proxy. All but the status throw NotReadyError until the source has synced. */
export function answersOfProxy(proxy: RunningProxy): ControlAnswers {
  const { configuration: { nodeName, modeDescription: mode }, tracking, families, traffic } = proxy;
  const bases = Object.fromEntries(families.map(({ family, basis }) => [family, basis])) as Record<Family, FamilyBasis>;
  const answers = createAnswers({
    nodeName,
    mode,
    tracking,
    families: bases,
    balance: balanceOptions(proxy.configuration),
    rulesFrom: "running proxy",
    ...(traffic && { traffic: traffic.recorder }),
    hostAddresses: addressesOfHost,
  });
  const whenReady = async <T>(ask: () => Promise<T>): Promise<T> => {
    if (!tracking.ready()) throw new NotReadyError("the proxy has not finished reading the cluster");
    return await ask();
  };
  const withTraffic = <T>(ask: () => Promise<T>): Promise<T> =>
    whenReady(async () => {
      await traffic?.refresh();
      return await ask();
    });
  return {
    explain: (question) => whenReady(() => answers.explain(question)),
    resolve: (name, from) => whenReady(() => answers.resolve(name, from)),
    services: (search) => withTraffic(() => answers.services(search)),
    endpoints: (search) => withTraffic(() => answers.endpoints(search)),
    browse: (question) => withTraffic(() => answers.browse(question)),
    state: (family) => whenReady(() => answers.state(family)),
    status: () => Promise.resolve(statusOf(proxy)),
    events: (since) => Promise.resolve(proxy.feed.read(since)),
  };
}

function statusOf(
  { configuration, tracking, families, traffic, health, recorder, problems, link, canaries, clock, startedAtMs }:
    RunningProxy,
) {
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
    stamp: stampOf(tracking, families, records, traffic),
    services: [...services.keys()].length,
    changesToPlan: FAMILIES.reduce((sum, family) => sum + endpoints[family].pending(), services.pending()),
    residentBytes: Deno.memoryUsage().rss,
    families: families.map((served): FamilyStatusDetails => ({
      ...records.find(({ family }) => family === served.family)!,
      healthy: judged.find(({ family }) => family === served.family)?.healthy ?? true,
      revision: served.basis.revision(),
      servicePorts: [...served.basis.planner.ports()].filter(({ service }) => service !== CANARY_KEY).length,
      changesPending: served.changesPending(),
      noLocalEndpoints: served.noLocalEndpoints(),
      canary: canaries.status().find(({ family }) => family === served.family),
    })),
    problems: problems.current(),
  };
}

function addressesOf({ node }: Tracking): readonly string[] {
  const { nodeIPs, primaryFamily } = node.state();
  return [primaryFamily, otherFamily(primaryFamily)].map((family) => nodeIPs[family]).filter((address) =>
    !isLoopback(address)
  );
}

/** Returns a text that changes whenever the input or result of planning does, or what is in effect. */
function stampOf(
  { services, endpoints, node }: Tracking,
  families: readonly ServedFamily[],
  records: readonly FamilyRecord[],
  traffic: RunningProxy["traffic"],
): string {
  const counts = [services, ...FAMILIES.map((family) => endpoints[family])].flatMap((tracker) => [
    tracker.total(),
    tracker.pending(),
  ]);
  const revisions = families.map(({ basis }) => basis.revision());
  const syncs = records.map(({ syncs: [last] }) => last && `${last.endedAtMs}${last.ok ? "" : "!"}`);
  const counted = FAMILIES.map((family) => traffic?.recorder.lastReadMs(family) ?? "");
  return [...counts, ...revisions, ...syncs, node.state().zone, ...counted].join(" ").trimEnd();
}
