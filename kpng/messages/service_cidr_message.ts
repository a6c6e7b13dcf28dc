import { type Decoded, decodeServiceCIDR, type ServiceCIDR } from "../../core/objects/mod.ts";
import type { ServiceCIDRMessage } from "./messages.ts";

/** A range of cluster IPs as one Sluice tells another. */
export function serviceCIDRMessage({ name, cidrs }: ServiceCIDR): ServiceCIDRMessage {
  return { name, cidrs };
}

/** The range that a message describes, read as a ServiceCIDR of the API is. */
export function serviceCIDROfMessage({ name, cidrs }: ServiceCIDRMessage): Decoded {
  return decodeServiceCIDR({ metadata: { name }, spec: { cidrs } });
}
