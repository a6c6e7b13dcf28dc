/** A Kubernetes ServiceCIDR: a range that cluster IPs are taken from. */
export interface ServiceCIDR {
  readonly kind: "ServiceCIDR";
  readonly name: string;
  /** Canonical prefixes of either family. */
  readonly cidrs: readonly string[];
}
