import { type Family, readTraffic, type ServicePortKey, type TrafficKind } from "../../core/model/mod.ts";
import { serviceKeyOf } from "../../core/tracking/mod.ts";
import { addReadings, type Registry } from "../../platform/metrics/mod.ts";
import { waitAtMost } from "../../platform/mod.ts";
import type { Node, NodeFamily, RunningFeature } from "../contract.ts";
import { createTrafficRecorder, type RecordedPort, type TrafficRecorder } from "./recorder.ts";

const CURRENT_MS = 1_000;
const ANSWER_MS = 2_000;
/** Readings take at most this share of the time. */
const READING_SHARE = 0.02;
/** The maximum pause after a slow reading, well below the ten minutes after which unread counters expire. */
const LONGEST_PAUSE_MS = 240_000;

/** Reads the counters of traffic periodically. */
export function start(
  { mode, families, clock, signal }: Pick<Node, "mode" | "families" | "clock" | "signal">,
  { traffic: options }: { readonly traffic: { readonly endpointMetrics: boolean; readonly periodMs: number } },
): Promise<RunningFeature & Required<Pick<RunningFeature, "counts">>> {
  const recorder = createTrafficRecorder(
    clock,
    (...port) => endpointsOf(families, ...port),
    mode.metrics.countsTraffic || undefined,
  );
  const reading = new Map<Family, Promise<void>>();
  let longestMs = 0;
  let cancel = () => {};

  const readOnce = async ({ family, call }: NodeFamily) => {
    const counted = await call(readTraffic, undefined);
    reading.delete(family);
    if (counted === undefined) return;
    longestMs = Math.max(longestMs, counted.durationMs);
    recorder.note(family, counted);
  };
  /** Reads the counters of a family; resolves when the counts are known, or its worker does not answer. */
  const read = (served: NodeFamily) => {
    const current = reading.get(served.family) ?? readOnce(served);
    reading.set(served.family, current);
    return current;
  };
  const schedule = () => {
    const slowMs = Math.min(longestMs / READING_SHARE, LONGEST_PAUSE_MS);
    cancel = clock.schedule(Math.max(options.periodMs, slowMs), () => {
      schedule();
      families.forEach(read);
    });
    longestMs = 0;
  };
  schedule();
  signal.addEventListener("abort", () => cancel(), { once: true });

  const refresh = async () => {
    const nowMs = clock.monotonic();
    const isOld = ({ family }: NodeFamily) => (recorder.lastReadMs(family) ?? -Infinity) < nowMs - CURRENT_MS;
    const old = families.filter((served) => served.hasServices() && isOld(served));
    if (old.length > 0) await waitAtMost(clock, ANSWER_MS, Promise.all(old.map(read)));
  };
  return Promise.resolve({
    addMetrics: (registry) => addTrafficMetrics(registry, recorder, options.endpointMetrics),
    updateMetrics: refresh,
    changed: (family, { deleted }) => recorder.forget(family, deleted),
    counts: { ...recorder, refresh },
  });
}

function endpointsOf(
  families: readonly NodeFamily[],
  family: Family,
  key: ServicePortKey,
): ReadonlySet<string> | undefined {
  const served = families.find((one) => one.family === family);
  const name = key.slice(0, key.lastIndexOf("|"));
  const planned = served?.portsOf(serviceKeyOf(name)).find((port) => port.key === key)?.planned;
  return planned && new Set([...planned.clusterEndpoints, ...planned.localEndpoints, ...planned.lingeringEndpoints]);
}

const SERVICE = ["namespace", "service", "port", "protocol", "ip_family"] as const;

const HELP: Readonly<Record<TrafficKind, string>> = {
  connections: "Connections to",
  packets: "Packets, of both directions, of",
  bytes: "Bytes with IP headers, of both directions, of",
};

/**
 * Registers the metrics of traffic: one series for each service port with traffic, and for each endpoint if asked for. There
 * are no metrics for traffic that the mode does not count.
 */
export function addTrafficMetrics(registry: Registry, recorder: TrafficRecorder, withEndpoints: boolean): void {
  const { kinds, failures } = recorder.coverage;
  type Samples = readonly (readonly [Readonly<Record<string, string>>, number])[];
  const add = (name: string, help: string, read: (port: RecordedPort) => Samples, ...labels: readonly string[]) => {
    const samples = () =>
      [...recorder.ports()].flatMap((port) => {
        const service = { ...partsOf(port.key), ip_family: port.family };
        return read(port).map(([own, value]) => [{ ...service, ...own }, value] as const);
      });
    addReadings(registry, [["counter", name, help, samples, ...SERVICE, ...labels]]);
  };
  for (const kind of kinds) {
    add(`sluice_service_${kind}_total`, `${HELP[kind]} service ports`, ({ traffic }) => [[{}, traffic[kind]!]]);
  }
  if (failures.length > 0) {
    const help = "Packets of new connections that reached no endpoint, by reason";
    const ofPort = ({ traffic: { failures = {} } }: RecordedPort): Samples =>
      Object.entries(failures).map(([reason, packets]) => [{ reason }, packets]);
    add("sluice_service_failed_packets_total", help, ofPort, "reason");
  }
  for (const kind of withEndpoints ? kinds : []) {
    const ofPort = ({ endpoints }: RecordedPort): Samples =>
      [...endpoints].map(([endpoint, traffic]) => [{ endpoint }, traffic[kind]!]);
    add(`sluice_endpoint_${kind}_total`, `${HELP[kind]} endpoints of service ports`, ofPort, "endpoint");
  }
}

/** The parts of `namespace/name:port|protocol`; a port without a name has an empty one. */
function partsOf(key: ServicePortKey) {
  const slash = key.indexOf("/"), bar = key.lastIndexOf("|"), colon = key.indexOf(":", slash);
  const end = colon < 0 ? bar : colon;
  return {
    namespace: key.slice(0, slash),
    service: key.slice(slash + 1, end),
    port: colon < 0 ? "" : key.slice(colon + 1, bar),
    protocol: key.slice(bar + 1),
  };
}
