import type { Node, RunningFeature } from "../contract.ts";
import { watchGone } from "./gone.ts";
import type { FailoverOptions } from "./options.ts";

/** Starts the parts that are on. */
export async function start(
  node: Node,
  { failover: options }: { readonly failover: FailoverOptions },
): Promise<RunningFeature> {
  const detection = options.endpointFailureDetection
    ? (await import("./detection.ts")).startDetection(node, options)
    : undefined;
  const resets = options.resetGoneConnections && node.mode.settings.resetsConnections && node.api !== undefined;
  const { endpoints } = node.tracking;
  const watches = resets ? node.families.map((served) => watchGone(node, served, endpoints[served.family])) : [];
  return {
    ...detection,
    planned(changes) {
      detection?.planned(changes);
      for (const watch of watches) watch(changes);
    },
  };
}
