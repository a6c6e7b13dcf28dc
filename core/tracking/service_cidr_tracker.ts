import { type Family, familyOf, sameData } from "../../platform/mod.ts";
import type { ServiceCIDR } from "../objects/mod.ts";

/** The ranges that cluster IPs are taken from, canonical and in a stable order, by family. */
export type ServiceRanges = Readonly<Record<Family, readonly string[]>>;

/** Keeps what the ServiceCIDRs say, as kube-proxy's ServiceCIDRConfig does: the ranges of all of them together. */
export interface ServiceCIDRTracker {
  update(object: ServiceCIDR): void;
  delete(name: string): void;
  /** The names of those that are known. */
  keys(): Iterable<string>;
  ranges(): ServiceRanges;
  pending(): boolean;
  /** Whether the ranges changed since the last `take`. */
  take(): boolean;
}

/** A tracker that knows of none. */
export function createServiceCIDRTracker(): ServiceCIDRTracker {
  const cidrs = new Map<string, readonly string[]>();
  let taken: ServiceRanges = { IPv4: [], IPv6: [] };
  let ranges = taken;

  const combine = () => {
    const all = [...new Set([...cidrs.values()].flat())].sort();
    const combined = {
      IPv4: all.filter((prefix) => familyOf(prefix) === "IPv4"),
      IPv6: all.filter((prefix) => familyOf(prefix) === "IPv6"),
    };
    ranges = sameData(combined, taken) ? taken : combined;
  };

  return {
    update(object) {
      cidrs.set(object.name, object.cidrs);
      combine();
    },
    delete(name) {
      if (cidrs.delete(name)) combine();
    },
    keys: () => cidrs.keys(),
    ranges: () => ranges,
    pending: () => ranges !== taken,
    take() {
      const changed = ranges !== taken;
      taken = ranges;
      return changed;
    },
  };
}
