import { prefixContains } from "../platform/mod.ts";
import type { FamilySettings, ServicePort } from "../core/model/mod.ts";
import type { Destination, FrontendHit } from "./frontend.ts";
import { balanced, isLocalTraffic, type Outcome, type Source, stopped } from "./outcome.ts";

/**
 * The outcome of a new connection in a mode with virtual servers (IPVS), as in kube-proxy's: a virtual server has one list of endpoints for all
 * clients, and rejects connections if it is empty. Service addresses are bound to the node; their other ports are
 * closed.
 */
export function outcomeByVirtualServers(destination: Destination, from: Source, settings: FamilySettings): Outcome {
  const { hit, isClusterIP, isBound } = destination;
  if (hit) {
    return hit.frontend.kind === "clusterIP" ? toClusterIP(hit.port, from, settings) : toExternal(hit, from);
  }
  if (!isBound) return stopped(from, "untouched", "no-service");
  return stopped(from, "rejected", isClusterIP ? "unused-port" : "unused-service-port");
}

function toClusterIP(port: ServicePort, from: Source, settings: FamilySettings): Outcome {
  if (port.internal === "reject") return stopped(from, "rejected", "no-endpoints");
  if (port.internal === "drop") return stopped(from, "rejected", "no-local-endpoints");
  return balanced(port, port.internal, from, clusterIPMasquerade(from, settings));
}

function clusterIPMasquerade(from: Source, settings: FamilySettings): Outcome["masquerade"] {
  if (settings.masqueradeAll) return { applies: true, reason: "masquerade-all" };
  if (settings.localTraffic.by === "none") {
    // The node's own traffic leaves with the cluster IP as its source, which other nodes cannot answer.
    return from.origin === "node"
      ? { applies: true, reason: "not-from-local-pod" }
      : { applies: false, reason: "local-traffic-unknown" };
  }
  return isLocalTraffic(from, settings)
    ? { applies: false, reason: "from-local-pod" }
    : { applies: true, reason: "not-from-local-pod" };
}

function toExternal({ frontend, port }: FrontendHit, from: Source): Outcome {
  const { verdict, sources } = frontend;
  // The node's own traffic reaches the virtual server before any rule.
  if (verdict === "reject" && from.origin === "node") return stopped(from, "rejected", "no-endpoints");
  if (sources && !isAdmitted(from, sources, port)) return stopped(from, "dropped", "source-range");
  if (verdict === "reject") return stopped(from, "rejected", "no-endpoints");
  const outcome = verdict === "cluster"
    ? balanced(port, "cluster", from, { applies: true, reason: "external-policy-cluster" })
    // Without endpoints on this node, its pods still reach those of other nodes (kubernetes PR 97081).
    : balanced(port, verdict === "drop" ? "cluster" : "local", from, {
      applies: false,
      reason: "external-policy-local",
    });
  return { ...outcome, onlySources: from.address === undefined ? sources : undefined };
}

/** The node's own traffic is not checked against the ranges: it is admitted if the node's address is in them. */
function isAdmitted({ origin, address }: Source, sources: readonly string[], port: ServicePort): boolean {
  if (origin === "node") return port.loadBalancerSources?.includeNode !== false;
  return address === undefined || sources.some((range) => prefixContains(range, address));
}
