import { joinHostPort } from "../../platform/mod.ts";

/** An EndpointSlice, as far as its TCP endpoints are concerned. */
export interface SliceOfEndpoints {
  readonly ports: readonly { readonly protocol: string; readonly port: number }[];
  readonly endpoints: readonly { readonly address: string }[];
}

/** Finds TCP endpoints that have left every EndpointSlice, in whatever state they were. */
export interface GoneTracker {
  /** Notes that the slices of these services may have changed; returns the endpoints that are gone since. */
  note(services: Iterable<string>): readonly string[];
  /** Returns the endpoints of these earlier slices that are in none of those noted. */
  goneSince(earlier: readonly SliceOfEndpoints[]): readonly string[];
}

/** A tracker that knows no endpoints. `slicesOf` returns the current slices of a service. */
export function createGoneTracker(slicesOf: (service: string) => readonly SliceOfEndpoints[]): GoneTracker {
  const byService = new Map<string, ReadonlySet<string>>();
  /** The number of services with each endpoint. */
  const uses = new Map<string, number>();
  return {
    note(services) {
      const removed = new Set<string>();
      for (const service of services) {
        const before = byService.get(service), after = targetsOf(slicesOf(service));
        for (const target of after) if (!before?.has(target)) uses.set(target, (uses.get(target) ?? 0) + 1);
        for (const target of before ?? []) {
          if (after.has(target)) continue;
          uses.set(target, uses.get(target)! - 1);
          removed.add(target);
        }
        if (after.size > 0) byService.set(service, after);
        else byService.delete(service);
      }
      const gone = [...removed].filter((target) => uses.get(target) === 0);
      for (const target of gone) uses.delete(target);
      return gone;
    },
    goneSince: (earlier) => [...targetsOf(earlier)].filter((target) => !uses.has(target)),
  };
}

function targetsOf(slices: readonly SliceOfEndpoints[]): ReadonlySet<string> {
  const targets = new Set<string>();
  for (const { ports, endpoints } of slices) {
    for (const { protocol, port } of ports) {
      if (protocol !== "tcp") continue;
      for (const { address } of endpoints) targets.add(joinHostPort(address, port));
    }
  }
  return targets;
}
