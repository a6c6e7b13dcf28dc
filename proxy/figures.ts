/** Figures of a running proxy for its metrics. */
import type { Family } from "../core/model/mod.ts";
import type { Tracking } from "../core/tracking/mod.ts";
import type { ChangeFigures, FamilyPacketCounts, FamilyRelayFigures } from "../observe/mod.ts";
import type { ServedFamily } from "./served_family.ts";

/** Returns the numbers of pending and total changes. */
export function changeFigures({ services, endpoints }: Tracking, families: readonly ServedFamily[]): ChangeFigures {
  return {
    serviceChangesPending: services.pending(),
    serviceChangesTotal: services.total(),
    endpointChangesPending: endpoints.IPv4.pending() + endpoints.IPv6.pending(),
    endpointChangesTotal: endpoints.IPv4.total() + endpoints.IPv6.total(),
    families: Object.fromEntries(families.map((served) => [served.family, {
      changesPending: served.changesPending(),
      noLocalEndpoints: served.noLocalEndpoints(),
    }])),
  };
}

/** Reads the packet counters of the families that have them. */
export function packetCountsOf(families: readonly ServedFamily[]): Promise<FamilyPacketCounts> {
  return readAll(families, (served) => served.packetCounts());
}

/** Reads the figures of the relays of the families that have one. */
export function relayFiguresOf(families: readonly ServedFamily[]): Promise<FamilyRelayFigures> {
  return readAll(families, (served) => served.relayFigures());
}

async function readAll<T>(
  families: readonly ServedFamily[],
  read: (served: ServedFamily) => Promise<T | undefined>,
): Promise<Partial<Record<Family, T>>> {
  const known = await Promise.all(families.map(async (served) => [served.family, await read(served)] as const));
  return Object.fromEntries(known.filter(([, value]) => value !== undefined));
}
