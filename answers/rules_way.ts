import { prefixContains } from "../platform/mod.ts";
import type { FamilySettings, ServicePort } from "../core/model/mod.ts";
import type { Destination, FrontendHit } from "./frontend.ts";
import { balanced, type From, isLocalTraffic, permittedSources, stopped, type Way } from "./way.ts";

/** What holds in a mode where the modes differ; each as in kube-proxy's mode of that name. */
interface ModeRules {
  /** What becomes of a connection to a cluster IP on a port that no service has. */
  readonly unusedPort: "rejected" | "untouched";
  /** Whether what this node itself sends to an external address without endpoints is refused. */
  readonly refusesOwnTraffic: boolean;
  /** Whether a source outside a load balancer's ranges is dropped also where there are no endpoints, not refused. */
  readonly checksSourcesFirst: boolean;
  /** Whether a node port without endpoints is refused at all addresses of the node, those that serve none among them. */
  readonly refusesEverywhere: boolean;
  /** Whether an address that is a cluster IP is masqueraded as one on every port, also where another service has that. */
  readonly masqueradesByAddress: boolean;
}

const MODE_RULES: Readonly<Record<Exclude<FamilySettings["mode"], "ipvs">, ModeRules>> = {
  iptables: {
    unusedPort: "untouched",
    refusesOwnTraffic: false,
    checksSourcesFirst: false,
    refusesEverywhere: true,
    masqueradesByAddress: false,
  },
  nftables: {
    unusedPort: "rejected",
    refusesOwnTraffic: true,
    checksSourcesFirst: true,
    refusesEverywhere: false,
    masqueradesByAddress: true,
  },
};

type RulesSettings = FamilySettings & { readonly mode: keyof typeof MODE_RULES };

/** What becomes of a new connection by the rules of iptables or nftables mode. */
export function wayThroughRules(destination: Destination, from: From, settings: RulesSettings): Way {
  const { hit } = destination;
  if (hit === undefined) return wayToNoService(destination, from, settings);
  return hit.kind === "clusterIP"
    ? wayToClusterIP(hit.port, from, settings)
    : wayFromOutside(hit, destination, from, settings);
}

function wayToNoService(
  { address, isClusterIP, isThisNode, unserved }: Destination,
  from: From,
  settings: RulesSettings,
): Way {
  if (unserved && MODE_RULES[settings.mode].refusesEverywhere) {
    if (unserved.external === "reject") return stopped(from, "rejected", "no-endpoints");
    if (unserved.external === "drop") return stopped(from, "dropped", "no-local-endpoints");
  }
  const isOfServices = settings.serviceRanges.some((range) => prefixContains(range, address));
  if (!isClusterIP && isOfServices && !isThisNode) return stopped(from, "dropped", "unused-address");
  if (!isClusterIP) return stopped(from, "untouched", "no-service");
  return stopped(from, MODE_RULES[settings.mode].unusedPort, "unused-port");
}

function wayToClusterIP(port: ServicePort, from: From, settings: FamilySettings): Way {
  if (port.internal === "reject") return stopped(from, "rejected", "no-endpoints");
  if (port.internal === "drop") return stopped(from, "dropped", "no-local-endpoints");
  return balanced(port, port.internal, from, toClusterIP(from, settings));
}

/** The masquerading of traffic to cluster IPs: what comes from elsewhere must come back this way. */
function toClusterIP(from: From, settings: FamilySettings): Way["masquerade"] {
  if (settings.masqueradeAll) return { applies: true, reason: "masquerade-all" };
  if (settings.localTraffic.by === "none") return { applies: false, reason: "local-traffic-unknown" };
  return isLocalTraffic(from, settings)
    ? { applies: false, reason: "from-local-pod" }
    : { applies: true, reason: "not-from-local-pod" };
}

/** To external IPs, load balancer IPs and node ports. */
function wayFromOutside(hit: FrontendHit, destination: Destination, from: From, settings: RulesSettings): Way {
  const { port } = hit;
  const { refusesOwnTraffic, checksSourcesFirst } = MODE_RULES[settings.mode];
  const checksSources = hit.kind === "loadBalancerIP" && (checksSourcesFirst || port.external !== "reject");
  const permitted = checksSources ? permittedSources(port, settings) : undefined;
  if (permitted && from.address !== undefined && !permitted.some((range) => prefixContains(range, from.address!))) {
    return stopped(from, "dropped", "source-range");
  }
  const onlySources = from.address === undefined ? permitted : undefined;
  if (port.external === "reject") {
    const isRefused = from.origin !== "node" || destination.isThisNode || refusesOwnTraffic;
    if (!isRefused) return stopped(from, "untouched", "not-refused-here");
    return { ...stopped(from, "rejected", "no-endpoints"), onlySources };
  }
  const way = wayOfExternalPolicy(port, from, settings);
  if (!destination.isClusterIP || !MODE_RULES[settings.mode].masqueradesByAddress || !way.masquerade) {
    return { ...way, onlySources };
  }
  const byAddress = toClusterIP(from, settings);
  return { ...way, onlySources, masquerade: byAddress?.applies ? byAddress : way.masquerade };
}

function wayOfExternalPolicy(port: ServicePort, from: From, settings: FamilySettings): Way {
  if (port.external === "cluster") {
    return balanced(port, "cluster", from, { applies: true, reason: "external-policy-cluster" });
  }
  if (isLocalTraffic(from, settings)) {
    return balanced(port, "cluster", from, { applies: false, reason: "from-local-pod" });
  }
  if (from.origin === "node") return balanced(port, "cluster", from, { applies: true, reason: "from-this-node" });
  if (port.external === "drop") return stopped(from, "dropped", "no-local-endpoints");
  return balanced(port, "local", from, { applies: false, reason: "external-policy-local" });
}
