import type { ClusterObject, EndpointSlice } from "../../core/objects/mod.ts";
import { joinHostPort } from "../../platform/mod.ts";
import type { NodeFamily, RunningFeature } from "../contract.ts";

/** Tells a family which TCP endpoints have left every EndpointSlice, regardless of their conditions. */
export type GoneReporter = Required<Pick<RunningFeature, "planned" | "earlier">>;

/** Reports endpoints of a family once its slices are known. `slicesOf` returns the current slices of a service. */
export function reportGone(
  { family, noteGone }: Pick<NodeFamily, "family" | "noteGone">,
  slicesOf: (service: string) => readonly EndpointSlice[],
): GoneReporter {
  const byService = new Map<string, ReadonlySet<string>>();
  /** The number of services that have each endpoint. */
  const uses = new Map<string, number>();
  let earlier: readonly EndpointSlice[] = [], hasPlanned = false;

  /** Notes that the slices of these services may have changed; returns the endpoints deleted since. */
  const note = (services: Iterable<string>): readonly string[] => {
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
  };
  const report = (services: Iterable<string>) => {
    const gone = [...note(services), ...[...targetsOf(earlier)].filter((target) => !uses.has(target))];
    earlier = [];
    if (gone.length > 0) noteGone(gone);
  };
  return {
    planned(changes) {
      hasPlanned = true;
      report(changes.endpoints[family].services);
    },
    earlier(objects: readonly ClusterObject[]) {
      earlier = objects.filter((object) => object.kind === "EndpointSlice").filter((slice) => slice.family === family);
      // Before the first plan, the current slices are unknown.
      if (hasPlanned) report([]);
    },
  };
}

function targetsOf(slices: readonly EndpointSlice[]): ReadonlySet<string> {
  const targets = new Set<string>();
  for (const { ports, endpoints } of slices) {
    for (const { protocol, port } of ports) {
      if (protocol !== "tcp") continue;
      for (const { address } of endpoints) targets.add(joinHostPort(address, port));
    }
  }
  return targets;
}
