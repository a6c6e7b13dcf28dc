import { probeTcp } from "../../platform/mod.ts";
import type { Node, RunningFeature } from "../contract.ts";
import { addDetections, startDetection } from "./detection.ts";
import type { TryTcp } from "./endpoint_probe.ts";
import { type GoneReporter, reportGone } from "./gone.ts";
import type { FailoverOptions } from "./feature.ts";

/** Starts the parts that are on. */
export function start(
  node: Node,
  { failover: options }: { readonly failover: FailoverOptions },
): Promise<RunningFeature> {
  const tryTcp: TryTcp = (target, timeoutMs) => probeTcp(target, timeoutMs, node.clock);
  const detection = options.endpointFailureDetection ? startDetection(node, options, tryTcp) : undefined;
  const reporters: readonly GoneReporter[] = options.resetGoneConnections
    ? node.families.map((served) => reportGone(served, node.tracking.endpoints[served.family].slicesOf))
    : [];
  return Promise.resolve({
    ...(detection && { addMetrics: (registry) => addDetections(registry, detection.figures) }),
    planned(changes) {
      detection?.planned();
      for (const reporter of reporters) reporter.planned(changes);
    },
    ...(options.resetGoneConnections && {
      earlier: (objects) => reporters.forEach((reporter) => reporter.earlier(objects)),
    }),
  });
}
