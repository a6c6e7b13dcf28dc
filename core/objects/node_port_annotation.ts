import { balanceAnnotations } from "./balance_annotations.ts";
import type { Service } from "./cluster_object.ts";

/** The key of the annotation that lists the addresses of a node at which a Service wants its node ports. */
export const NODE_PORT_ADDRESSES = "sluice.dev/node-port-addresses";

/** The annotations of a Service that Sluice reads itself, by key, to pass them on; undefined if it has none. */
export function ownAnnotations(
  { balancing, nodePortAddresses }: Pick<Service, "balancing" | "nodePortAddresses">,
): Readonly<Record<string, string>> | undefined {
  if (balancing === undefined && nodePortAddresses === undefined) return undefined;
  return {
    ...balancing && balanceAnnotations(balancing),
    ...nodePortAddresses !== undefined && { [NODE_PORT_ADDRESSES]: nodePortAddresses },
  };
}
