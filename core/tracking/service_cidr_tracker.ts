import { type Family, familyOf, sameData } from "../../platform/mod.ts";
import type { ServiceCIDR } from "../objects/mod.ts";

/** The ranges from which cluster IPs are allocated, by family; canonical and in a stable order. */
export type ServiceRanges = Readonly<Record<Family, readonly string[]>>;

/** Tracks the ranges of all ServiceCIDRs, as kube-proxy's ServiceCIDRConfig does. */
export interface ServiceCIDRTracker {
  update(object: ServiceCIDR): void;
  delete(name: string): void;
  /** The names of the ServiceCIDRs. */
  keys(): Iterable<string>;
  /** The ServiceCIDRs; the iteration may continue after changes. */
  values(): Iterable<ServiceCIDR>;
  ranges(): ServiceRanges;
  pending(): boolean;
  /** Whether the ranges changed since the last `take`. */
  take(): boolean;
}

/** A tracker without ServiceCIDRs. */
export function createServiceCIDRTracker(): ServiceCIDRTracker {
  const objects = new Map<string, ServiceCIDR>();
  let taken: ServiceRanges = { IPv4: [], IPv6: [] };
  let ranges = taken;

  const combine = () => {
    const all = [...new Set([...objects.values()].flatMap(({ cidrs }) => cidrs))].sort();
    const combined = {
      IPv4: all.filter((prefix) => familyOf(prefix) === "IPv4"),
      IPv6: all.filter((prefix) => familyOf(prefix) === "IPv6"),
    };
    ranges = sameData(combined, taken) ? taken : combined;
  };

  return {
    update(object) {
      objects.set(object.name, object);
      combine();
    },
    delete(name) {
      if (objects.delete(name)) combine();
    },
    keys: () => objects.keys(),
    values: () => objects.values(),
    ranges: () => ranges,
    pending: () => ranges !== taken,
    take() {
      const changed = ranges !== taken;
      taken = ranges;
      return changed;
    },
  };
}
