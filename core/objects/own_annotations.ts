import { readAnnotation } from "./annotation_text.ts";
import { balanceAnnotations, readBalanceAnnotations } from "./balance_annotations.ts";
import type { Service } from "./cluster_object.ts";
import type { RawObject } from "./raw.ts";

/** The key of the annotation that lists the addresses of a node at which a Service wants its node ports. */
export const NODE_PORT_ADDRESSES = "sluice.dev/node-port-addresses";

/** The fields of a Service that hold annotations of Sluice's own, unparsed; the planner reads them. */
type OwnAnnotations = Pick<Service, "balancing" | "nodePortAddresses">;

/** Reads the annotations of Sluice's own; undefined if the Service has none. */
export function readOwnAnnotations(annotations: RawObject): OwnAnnotations | undefined {
  const balancing = readBalanceAnnotations(annotations);
  const nodePortAddresses = readAnnotation(annotations, NODE_PORT_ADDRESSES);
  if (nodePortAddresses === undefined) return balancing && { balancing };
  return { ...balancing && { balancing }, nodePortAddresses };
}

/** The annotations of Sluice's own by key, to pass them on; undefined if the Service has none. */
export function ownAnnotations(
  { balancing, nodePortAddresses }: OwnAnnotations,
): Readonly<Record<string, string>> | undefined {
  if (balancing === undefined && nodePortAddresses === undefined) return undefined;
  return {
    ...balancing && balanceAnnotations(balancing),
    ...nodePortAddresses !== undefined && { [NODE_PORT_ADDRESSES]: nodePortAddresses },
  };
}
