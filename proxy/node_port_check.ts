import { type Configuration, lacksPrimaryAddress } from "../config/mod.ts";
import type { Family, ServicePort } from "../core/model/mod.ts";
import type { ReportProblems } from "../core/problems/mod.ts";
import type { NodeState } from "../core/tracking/mod.ts";

/**
 * Creates a check of planned service ports. While node ports are served on more addresses than configured, because the
 * node's primary address is unknown, it reports that once, with the first such node port.
 */
export function createNodePortCheck(
  family: Family,
  configuration: Configuration,
  onProblems: ReportProblems,
): (node: NodeState, set: readonly ServicePort[]) => void {
  const scope = `node ports ${family}`;
  let isReported = false;
  return (node, set) => {
    if (!lacksPrimaryAddress(family, configuration, node)) {
      if (isReported) onProblems(scope, []);
      isReported = false;
      return;
    }
    const exposed = isReported ? undefined : set.find(({ nodePort }) => nodePort !== 0);
    if (exposed === undefined) return;
    isReported = true;
    onProblems(scope, [{
      code: "node-ports-exposed",
      subject: `Node ${configuration.nodeName} (${family})`,
      detail:
        `node ports, such as ${exposed.nodePort} of ${exposed.name}, are served on all ${family} addresses of this ` +
        `node: nodePortAddresses is primary, and no primary ${family} address is known`,
    }]);
  };
}
