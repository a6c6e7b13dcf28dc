import type { ServiceKey } from "../../core/tracking/mod.ts";
import type { Node, RunningFeature } from "../contract.ts";
import { reportGone } from "./gone.ts";
import type { FailoverOptions } from "./feature.ts";

/** Starts the parts that are on. */
export async function start(
  node: Node,
  { failover: options }: { readonly failover: FailoverOptions },
): Promise<RunningFeature> {
  const detection = options.endpointFailureDetection
    ? (await import("./detection.ts")).startDetection(node, options)
    : undefined;
  const resets = options.resetGoneConnections && node.mode.settings.resetsConnections && node.api !== undefined;
  const { services, endpoints } = node.tracking;
  const reporters = resets
    ? node.families.map((served) => {
      const { values, slicesOf } = endpoints[served.family];
      const isServed = (service: ServiceKey) => services.get(service) !== undefined && slicesOf(service).length > 0;
      return reportGone(node, served, values, isServed);
    })
    : [];
  return {
    ...detection,
    planned(changes) {
      detection?.planned(changes);
      for (const reporter of reporters) reporter.planned(changes);
    },
    ...(resets && {
      earlier: (objects) => reporters.forEach((reporter) => reporter.earlier(objects)),
    }),
  };
}
