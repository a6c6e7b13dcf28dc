import type { RelayFigures } from "./contract.ts";

/** The figures while they are counted. */
export type Counters = { -readonly [Name in keyof RelayFigures]: number };

/** Returns figures of a relay that has done nothing. */
export function createCounters(): Counters {
  return {
    connectionsOpen: 0,
    connectionsAccepted: 0,
    connectionsRefused: 0,
    connectionsFailed: 0,
    failovers: 0,
    bytesToEndpoints: 0,
    bytesToClients: 0,
    udpFlows: 0,
    udpFlowsCreated: 0,
    udpFlowsEvicted: 0,
    datagramsToEndpoints: 0,
    datagramsToClients: 0,
    datagramsDropped: 0,
    listeners: 0,
  };
}
