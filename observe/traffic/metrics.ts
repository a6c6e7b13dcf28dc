import type { Family, ServicePortKey, TrafficKind } from "../../core/model/mod.ts";
import { readWhenShown, type Registry } from "../mod.ts";
import type { RecordedPort, TrafficRecorder } from "./recorder.ts";

const SERVICE = ["namespace", "service", "port", "protocol", "ip_family"] as const;

const HELP: Readonly<Record<TrafficKind, string>> = {
  connections: "Connections to",
  packets: "Packets, of both directions, of",
  bytes: "Bytes with IP headers, of both directions, of",
};

/**
 * Registers the metrics of traffic: one series for each service port with traffic, and for each endpoint if asked for.
 * What the mode does not count has no metric.
 */
export function addTrafficMetrics(registry: Registry, recorder: TrafficRecorder, withEndpoints: boolean): void {
  const { kinds, failures } = recorder.coverage;
  for (const count of kinds) {
    const name = `sluice_service_${count}_total`;
    readWhenShown(
      registry,
      "counter",
      { name, help: `${HELP[count]} service ports`, labels: SERVICE },
      () => [...recorder.ports()].map((port) => [serviceLabels(port), port.traffic[count]!]),
    );
  }
  if (failures.length > 0) addFailures(registry, recorder);
  if (!withEndpoints) return;
  for (const count of kinds) {
    const name = `sluice_endpoint_${count}_total`;
    readWhenShown(
      registry,
      "counter",
      { name, help: `${HELP[count]} endpoints of service ports`, labels: [...SERVICE, "endpoint"] },
      () =>
        [...recorder.ports()].flatMap((port) =>
          [...port.endpoints].map(([endpoint, traffic]) =>
            [{ ...serviceLabels(port), endpoint }, traffic[count]!] as const
          )
        ),
    );
  }
}

function addFailures(registry: Registry, recorder: TrafficRecorder): void {
  readWhenShown(
    registry,
    "counter",
    {
      name: "sluice_service_failed_packets_total",
      help: "Packets of new connections that reached no endpoint, by reason",
      labels: [...SERVICE, "reason"],
    },
    () =>
      [...recorder.ports()].flatMap((port) =>
        Object.entries(port.traffic.failures ?? {}).map(([reason, packets]) =>
          [{ ...serviceLabels(port), reason }, packets] as const
        )
      ),
  );
}

function serviceLabels({ family, key }: Pick<RecordedPort, "family" | "key">) {
  return { ...partsOf(key), ip_family: family satisfies Family };
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
