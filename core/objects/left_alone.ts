import type { RawObject } from "./raw.ts";

/**
 * Whether a label gives the object to another proxy or to none. It is the label's presence that counts, not its value;
 * kube-proxy excludes both at the API server, for Services and EndpointSlices alike.
 */
export function isLeftAlone(labels: RawObject): boolean {
  return labels["service.kubernetes.io/service-proxy-name"] !== undefined ||
    labels["service.kubernetes.io/headless"] !== undefined;
}
