import type { Family } from "../core/model/mod.ts";
import type { Registry } from "./exposition.ts";
import { metricMaker } from "./metric_kinds.ts";

/** The figures of each family's relay, by the names of relay/contract.ts; without a family that has none or does not answer. */
export type FamilyRelayFigures = Readonly<Partial<Record<Family, Readonly<Record<string, number>>>>>;

const GAUGES = {
  connectionsOpen: ["connections", "Open TCP connections of clients"],
  udpFlows: ["udp_flows", "UDP flows in the table"],
  listeners: ["listeners", "Open listeners, TCP and UDP"],
} as const;

const COUNTERS = {
  connectionsAccepted: ["connections_accepted_total", "Connections accepted from clients"],
  connectionsRefused: ["connections_refused_total", "Connections reset because too many are open"],
  connectionsFailed: ["connections_failed_total", "Connections reset because no endpoint accepted them"],
  failovers: ["failovers_total", "Endpoints passed over because they did not accept a connection"],
  bytesToEndpoints: ["to_endpoints_bytes_total", "TCP payload carried to endpoints"],
  bytesToClients: ["to_clients_bytes_total", "TCP payload carried to clients"],
  udpFlowsEvicted: ["udp_flows_evicted_total", "UDP flows closed early because too many are open"],
  datagramsDropped: ["datagrams_dropped_total", "Datagrams of clients that reached no endpoint"],
} as const;

/**
 * Registers the metrics of the relays; returns a function that updates them. Counters keep growing when a restarted relay
 * counts from 0 again, and keep their values while none answers.
 */
export function relayMetrics(registry: Registry, read: () => Promise<FamilyRelayFigures>): () => Promise<void> {
  const own = metricMaker(registry, "sluice_relay_");
  const labels = ["ip_family"] as const;
  const gauges = Object.entries(GAUGES).map(([figure, [name, help]]) => (
    { figure, gauge: own.gauge(name, help, labels) }
  ));
  const counters = Object.entries(COUNTERS).map(([figure, [name, help]]) => (
    { figure, counter: own.counter(name, help, labels) }
  ));
  const last = new Map<string, Readonly<Record<string, number>>>();
  return async () => {
    for (const [ip_family, figures] of Object.entries(await read())) {
      const before = last.get(ip_family) ?? {};
      last.set(ip_family, figures);
      for (const { figure, gauge } of gauges) gauge.set({ ip_family }, figures[figure] ?? 0);
      for (const { figure, counter } of counters) {
        const now = figures[figure] ?? 0, then = before[figure] ?? 0;
        counter.inc({ ip_family }, now >= then ? now - then : now);
      }
    }
  };
}
