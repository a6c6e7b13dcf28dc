import { BYTES, collectRows, CONNECTIONS, type ServicePortKey, type TrafficReading } from "../core/model/mod.ts";

const NOTHING_COUNTED = {
  /** Gauge: open TCP connections of clients. */
  connectionsOpen: 0,
  connectionsAccepted: 0,
  /** Connections that were reset at once because `connections` were open. */
  connectionsRefused: 0,
  /** Connections that were reset because no endpoint accepted them, or there was none. */
  connectionsFailed: 0,
  /** Endpoints that refused, failed or did not answer in time, so that another one was tried. */
  failovers: 0,
  /** TCP payload from clients to endpoints. */
  bytesToEndpoints: 0,
  /** TCP payload from endpoints to clients. */
  bytesToClients: 0,
  /** Gauge: UDP flows in the table. */
  udpFlows: 0,
  udpFlowsCreated: 0,
  /** UDP flows that were closed early because `udpFlows` were in the table. */
  udpFlowsEvicted: 0,
  datagramsToEndpoints: 0,
  datagramsToClients: 0,
  /** Datagrams of clients that were dropped: no endpoint, or the system refused to send them. */
  datagramsDropped: 0,
  /** Gauge: open listeners, TCP and UDP. */
  listeners: 0,
  /** Failures to open a listener, each try. */
  listenersFailed: 0,
};

/** The metrics while they are counted. */
export type Counters = typeof NOTHING_COUNTED;

/** Counters since the start, and gauges where noted. */
export type RelayCounts = Readonly<Counters>;

/** Returns the metrics of a relay that has done nothing. */
export function createCounters(): Counters {
  return { ...NOTHING_COUNTED };
}

/** Counts the relay's traffic by service port and endpoint, while counting is requested. */
export interface RelayTraffic {
  /** Starts or stops counting. */
  follow(isCounting: boolean): void;
  /**
   * Counts a connection or a UDP flow to an endpoint. Returns a function that counts bytes of its payload; undefined if
   * nothing is counted.
   */
  begin(port: ServicePortKey, endpoint: string): CountBytes | undefined;
  /** Returns the counts since the last call; undefined if nothing is counted. */
  take(): TrafficReading | undefined;
}

/** Counts bytes of a connection, of both directions. */
export type CountBytes = (bytes: number) => void;

/** Creates counts; counting is off at first. */
export function createRelayTraffic(): RelayTraffic {
  const rows = collectRows();
  let counting = false;
  return {
    follow(isCounting) {
      counting = isCounting;
      if (!counting) rows.take(0);
    },
    begin(port, endpoint) {
      if (!counting) return undefined;
      rows.add(port, endpoint, CONNECTIONS, 1);
      return (bytes) => {
        if (counting) rows.add(port, endpoint, BYTES, bytes);
      };
    },
    take: () => counting ? rows.take(0) : undefined,
  };
}
