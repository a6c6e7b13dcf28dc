/** Figures of a running proxy for its metrics. */
import type { Tracking } from "../core/tracking/mod.ts";
import type { ChangeFigures, FamilyPacketCounts } from "../observe/mod.ts";
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
export async function packetCountsOf(families: readonly ServedFamily[]): Promise<FamilyPacketCounts> {
  const counts = await Promise.all(
    families.map(async (served) => [served.family, await served.packetCounts()] as const),
  );
  return Object.fromEntries(counts.filter(([, known]) => known !== undefined));
}
