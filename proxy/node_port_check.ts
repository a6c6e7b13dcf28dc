import { type Configuration, lacksPrimaryAddress } from "../config/mod.ts";
import type { Family, ServicePort } from "../core/model/mod.ts";
import type { NodeState } from "../core/tracking/mod.ts";

/**
 * A check of the service ports that are set, given what is known of the node: the first with a node port is reported
 * where node ports are served on more addresses than the configuration asks for. Once, as long as that lasts.
 */
export function createNodePortCheck(
  family: Family,
  configuration: Configuration,
  onProblem: (where: string, message: string) => void,
): (node: NodeState, set: readonly ServicePort[]) => void {
  let isReported = false;
  return (node, set) => {
    if (!lacksPrimaryAddress(family, configuration, node)) {
      isReported = false;
      return;
    }
    const exposed = isReported ? undefined : set.find(({ nodePort }) => nodePort !== 0);
    if (exposed === undefined) return;
    isReported = true;
    onProblem(
      `Node ${configuration.nodeName}`,
      `node ports, such as ${exposed.nodePort} of ${exposed.name}, are served on all ${family} addresses of this node: ` +
        `nodePortAddresses is primary, and no primary ${family} address is known; give the Node one, set bindAddress, ` +
        "or list prefixes in nodePortAddresses",
    );
  };
}
