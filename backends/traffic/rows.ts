import type { FailureReason, ServicePortKey, TrafficFailure, TrafficReading } from "../../core/model/mod.ts";

/** The kinds of counts, in their order in `TrafficReading.counts`. */
export const CONNECTIONS = 0, PACKETS = 1, BYTES = 2;

/** Collects the rows of one reading. */
export interface TrafficRows {
  /** Adds to a count of an endpoint of a service port. */
  add(
    port: ServicePortKey,
    endpoint: string,
    kind: typeof CONNECTIONS | typeof PACKETS | typeof BYTES,
    by: number,
  ): void;
  fail(port: ServicePortKey, reason: FailureReason, packets: number): void;
  finish(durationMs: number): TrafficReading;
}

/** Starts a reading without rows. */
export function collectRows(): TrafficRows {
  const ports: ServicePortKey[] = [], endpoints: string[] = [], counts: number[] = [];
  const rowOf = new Map<ServicePortKey, Map<string, number>>();
  const failures = new Map<string, TrafficFailure>();
  return {
    add(port, endpoint, kind, by) {
      let ofPort = rowOf.get(port);
      if (ofPort === undefined) rowOf.set(port, ofPort = new Map());
      let row = ofPort.get(endpoint);
      if (row === undefined) {
        ofPort.set(endpoint, row = ports.length);
        ports.push(port);
        endpoints.push(endpoint);
        counts.push(0, 0, 0);
      }
      counts[3 * row + kind]! += by;
    },
    fail(port, reason, packets) {
      const id = `${reason} ${port}`;
      failures.set(id, { port, reason, packets: packets + (failures.get(id)?.packets ?? 0) });
    },
    finish: (durationMs) => (
      { durationMs, ports, endpoints, counts: Float64Array.from(counts), failures: [...failures.values()] }
    ),
  };
}
