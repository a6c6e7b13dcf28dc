import { isCounted, type ServicePort } from "../../core/model/mod.ts";
import { type ServiceKey, serviceKeyOf } from "../../core/tracking/mod.ts";
import { errorText } from "../../platform/mod.ts";
import type { Node, NodeFamily, RunningFeature } from "../contract.ts";

/** Watches the connections of services that ask for it; until one does, it only looks at planned service ports. */
export function start(node: Node): Promise<Required<Pick<RunningFeature, "planned" | "changed">>> {
  const notes = new Map(node.families.map((served) => [served.family, noteAsking(node, served)]));
  let isFirst = true;
  return Promise.resolve({
    planned() {
      // Service ports planned before the first round are not among its changes.
      if (isFirst) {
        for (const { family, ports } of node.families) for (const { wanted } of ports()) notes.get(family)?.(wanted);
      }
      isFirst = false;
    },
    changed: (family, { set }) => set.forEach((port) => notes.get(family)?.(port)),
  });
}

/** Returns a function that notes the service of a planned port if it asks, and starts the watch with the first one. */
function noteAsking(node: Node, served: NodeFamily): (port: ServicePort) => void {
  const asking = new Set<ServiceKey>();
  return ({ name, balance }) => {
    if (balance === undefined || !isCounted(balance)) return;
    const isFirst = asking.size === 0;
    asking.add(serviceKeyOf(name));
    if (!isFirst) return;
    import("./watch.ts").then(({ watchConnections }) => watchConnections(node, served, asking)).catch((error) =>
      node.logger.error("least-connections is not started", { family: served.family, error: errorText(error) })
    );
  };
}
