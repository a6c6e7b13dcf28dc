import { prefixContains } from "../platform/mod.ts";
import type { FamilySettings, ServicePort } from "../core/model/mod.ts";
import type { Destination, FrontendHit } from "./frontend.ts";
import { balanced, type From, isLocalTraffic, nodeMayEnter, permittedSources, stopped, type Way } from "./way.ts";

/**
 * What becomes of a new connection in IPVS mode, as in kube-proxy's: a virtual server has one list of endpoints for
 * everybody, and refuses where it is empty. The addresses of services are addresses of the node, and closed on all ports
 * but theirs.
 */
export function wayThroughVirtualServers(destination: Destination, from: From, settings: FamilySettings): Way {
  const { hit, isClusterIP, isBound } = destination;
  if (hit) {
    return hit.kind === "clusterIP" ? wayToClusterIP(hit.port, from, settings) : wayFromOutside(hit, from, settings);
  }
  if (!isBound) return stopped(from, "untouched", "no-service");
  return stopped(from, "rejected", isClusterIP ? "unused-port" : "unused-service-port");
}

function wayToClusterIP(port: ServicePort, from: From, settings: FamilySettings): Way {
  if (port.internal === "reject") return stopped(from, "rejected", "no-endpoints");
  if (port.internal === "drop") return stopped(from, "rejected", "no-local-endpoints");
  return balanced(port, port.internal, from, toClusterIP(from, settings));
}

function toClusterIP(from: From, settings: FamilySettings): Way["masquerade"] {
  if (settings.masqueradeAll) return { applies: true, reason: "masquerade-all" };
  if (settings.localTraffic.by === "none") {
    // The node sends with the cluster IP as its source, an address that nobody else knows.
    return from.origin === "node"
      ? { applies: true, reason: "not-from-local-pod" }
      : { applies: false, reason: "local-traffic-unknown" };
  }
  return isLocalTraffic(from, settings)
    ? { applies: false, reason: "from-local-pod" }
    : { applies: true, reason: "not-from-local-pod" };
}

function wayFromOutside({ kind, port }: FrontendHit, from: From, settings: FamilySettings): Way {
  // What the node itself sends meets the virtual server before any rule.
  if (port.external === "reject" && from.origin === "node") return stopped(from, "rejected", "no-endpoints");
  const permitted = kind === "loadBalancerIP" ? permittedSources(port, settings) : undefined;
  if (permitted && !mayEnter(from, permitted, port, settings)) return stopped(from, "dropped", "source-range");
  if (port.external === "reject") return stopped(from, "rejected", "no-endpoints");
  const way = port.external === "cluster"
    ? balanced(port, "cluster", from, { applies: true, reason: "external-policy-cluster" })
    // Where this node has none, its pods still get to the others (kubernetes PR 97081).
    : balanced(port, port.external === "drop" ? "cluster" : "local", from, {
      applies: false,
      reason: "external-policy-local",
    });
  return { ...way, onlySources: from.address === undefined ? permitted : undefined };
}

/** What the node itself sends meets no source ranges, and is judged by the node's address. */
function mayEnter(from: From, permitted: readonly string[], port: ServicePort, settings: FamilySettings): boolean {
  if (from.origin === "node") return nodeMayEnter(port, settings);
  return from.address === undefined || permitted.some((range) => prefixContains(range, from.address!));
}
