import type { ClusterObject, EndpointSlice } from "../../core/objects/mod.ts";
import type { TrackedChanges } from "../../core/tracking/mod.ts";
import { joinHostPort } from "../../platform/mod.ts";
import type { NodeFamily } from "../contract.ts";

/** The TCP endpoints of an EndpointSlice. */
export interface SliceOfEndpoints {
  readonly ports: readonly { readonly protocol: string; readonly port: number }[];
  readonly endpoints: readonly { readonly address: string }[];
}

/** Finds TCP endpoints that have left every EndpointSlice, regardless of their conditions. */
export interface GoneTracker {
  /** Notes that the slices of these services may have changed; returns the endpoints deleted since. */
  note(services: Iterable<string>): readonly string[];
  /** Returns the endpoints of these earlier slices that no noted slice has. */
  goneSince(earlier: readonly SliceOfEndpoints[]): readonly string[];
}

/** Reports endpoints that are gone to a family. */
export interface GoneReporter {
  planned(changes: TrackedChanges): void;
  /** Notes objects of an earlier run, for connections to endpoints that have left their slices since. */
  earlier(objects: readonly ClusterObject[]): void;
}

/** Reports endpoints of a family once its slices are known. `slicesOf` returns the current slices of a service. */
export function reportGone(
  { family, noteGone }: Pick<NodeFamily, "family" | "noteGone">,
  slicesOf: (service: string) => readonly SliceOfEndpoints[],
): GoneReporter {
  const tracker = createGoneTracker(slicesOf);
  let earlier: readonly EndpointSlice[] = [], hasPlanned = false;
  const report = (services: Iterable<string>) => {
    const gone = [...tracker.note(services), ...tracker.goneSince(earlier)];
    earlier = [];
    if (gone.length > 0) noteGone(gone);
  };
  return {
    planned(changes) {
      hasPlanned = true;
      report(changes.endpoints[family].services);
    },
    earlier(objects) {
      earlier = objects.filter((object) => object.kind === "EndpointSlice").filter((slice) => slice.family === family);
      // Before the first plan, the current slices are unknown.
      if (hasPlanned) report([]);
    },
  };
}

/** A tracker that knows no endpoints. `slicesOf` returns the current slices of a service. */
export function createGoneTracker(slicesOf: (service: string) => readonly SliceOfEndpoints[]): GoneTracker {
  const byService = new Map<string, ReadonlySet<string>>();
  /** The number of services that have each endpoint. */
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
