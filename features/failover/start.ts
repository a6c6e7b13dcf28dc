import type { Node, RunningFeature } from "../contract.ts";
import { startDetection } from "./detection.ts";
import { reportGone } from "./gone.ts";
import type { FailoverOptions } from "./feature.ts";

/** Starts the parts that are on. */
export function start(
  node: Node,
  { failover: options }: { readonly failover: FailoverOptions },
): Promise<RunningFeature> {
  const detection = options.endpointFailureDetection ? startDetection(node, options) : undefined;
  const reporters = options.resetGoneConnections
    ? node.families.map((served) => reportGone(served, node.tracking.endpoints[served.family].slicesOf))
    : [];
  return Promise.resolve({
    ...detection,
    planned(changes) {
      detection?.planned(changes);
      for (const reporter of reporters) reporter.planned(changes);
    },
    ...(options.resetGoneConnections && {
      earlier: (objects) => reporters.forEach((reporter) => reporter.earlier(objects)),
    }),
  });
}
