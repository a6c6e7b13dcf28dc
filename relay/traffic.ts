import type { ServicePortKey, TrafficReading } from "../core/model/mod.ts";

/** Counts what the relay carries, by service port and endpoint, while that is asked for. */
export interface RelayTraffic {
  /** Starts or stops counting. */
  follow(isCounting: boolean): void;
  /**
   * Counts a connection or a UDP flow to an endpoint. Returns a function that counts bytes of its payload; undefined if
   * nothing is counted.
   */
  begin(port: ServicePortKey, endpoint: string): CountBytes | undefined;
  /** Returns what was counted since the last call; undefined if nothing is counted. */
  take(): TrafficReading | undefined;
}

/** Counts bytes of a connection, of both directions. */
export type CountBytes = (bytes: number) => void;

interface Counts {
  connections: number;
  bytes: number;
}

/** Creates counts that are not asked for yet. */
export function createRelayTraffic(): RelayTraffic {
  const ports = new Map<ServicePortKey, Map<string, Counts>>();
  let counting = false;
  const countsOf = (port: ServicePortKey, endpoint: string): Counts => {
    let endpoints = ports.get(port);
    if (endpoints === undefined) ports.set(port, endpoints = new Map());
    let counts = endpoints.get(endpoint);
    if (counts === undefined) endpoints.set(endpoint, counts = { connections: 0, bytes: 0 });
    return counts;
  };
  return {
    follow(isCounting) {
      counting = isCounting;
      if (!counting) ports.clear();
    },
    begin(port, endpoint) {
      if (!counting) return undefined;
      countsOf(port, endpoint).connections++;
      return (bytes) => {
        if (counting) countsOf(port, endpoint).bytes += bytes;
      };
    },
    take() {
      if (!counting) return undefined;
      const rows = [...ports].flatMap(([port, endpoints]) =>
        [...endpoints].map(([endpoint, counts]) => ({ port, endpoint, counts }))
      );
      ports.clear();
      return {
        durationMs: 0,
        ports: rows.map(({ port }) => port),
        endpoints: rows.map(({ endpoint }) => endpoint),
        counts: Float64Array.from(rows.flatMap(({ counts: { connections, bytes } }) => [connections, 0, bytes])),
        failures: [],
      };
    },
  };
}
