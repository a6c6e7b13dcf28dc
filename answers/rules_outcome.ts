import { prefixContains } from "../platform/mod.ts";
import type { RuleTraffic } from "../backends/contract/mod.ts";
import type { FamilySettings, ServicePort } from "../core/model/mod.ts";
import type { Destination, FrontendHit } from "./frontend.ts";
import { balanced, isLocalTraffic, type Outcome, type Source, stopped } from "./outcome.ts";

/** The outcome of a new connection in a mode with rules. */
export function outcomeByRules(
  destination: Destination,
  from: Source,
  settings: FamilySettings,
  traffic: RuleTraffic,
): Outcome {
  const { hit } = destination;
  if (hit === undefined) return toNoService(destination, from, settings, traffic);
  return hit.frontend.kind === "clusterIP"
    ? toClusterIP(hit.port, from, settings)
    : toExternal(hit, destination, from, settings, traffic);
}

function toNoService(
  { address, isClusterIP, isThisNode, unserved }: Destination,
  from: Source,
  settings: FamilySettings,
  traffic: RuleTraffic,
): Outcome {
  if (unserved && traffic.refusesEverywhere) {
    if (unserved.external === "reject") return stopped(from, "rejected", "no-endpoints");
    if (unserved.external === "drop") return stopped(from, "dropped", "no-local-endpoints");
  }
  const isOfServices = settings.serviceRanges.some((range) => prefixContains(range, address));
  if (!isClusterIP && isOfServices && !isThisNode) return stopped(from, "dropped", "unused-address");
  if (!isClusterIP) return stopped(from, "untouched", "no-service");
  return stopped(from, traffic.unusedPort, "unused-port");
}

function toClusterIP(port: ServicePort, from: Source, settings: FamilySettings): Outcome {
  if (port.internal === "reject") return stopped(from, "rejected", "no-endpoints");
  if (port.internal === "drop") return stopped(from, "dropped", "no-local-endpoints");
  return balanced(port, port.internal, from, clusterIPMasquerade(from, settings));
}

/** Whether traffic to cluster IPs is masqueraded: replies to traffic from elsewhere must come back through this node. */
function clusterIPMasquerade(from: Source, settings: FamilySettings): Outcome["masquerade"] {
  if (settings.masqueradeAll) return { applies: true, reason: "masquerade-all" };
  if (settings.localTraffic.by === "none") return { applies: false, reason: "local-traffic-unknown" };
  return isLocalTraffic(from, settings)
    ? { applies: false, reason: "from-local-pod" }
    : { applies: true, reason: "not-from-local-pod" };
}

/** The outcome of a connection to an external IP, a load balancer IP or a node port. */
function toExternal(
  hit: FrontendHit,
  destination: Destination,
  from: Source,
  settings: FamilySettings,
  traffic: RuleTraffic,
): Outcome {
  const { frontend } = hit;
  const { refusesOwnTraffic, checksSourcesFirst } = traffic;
  const admitted = checksSourcesFirst || frontend.verdict !== "reject" ? frontend.sources : undefined;
  if (admitted && from.address !== undefined && !admitted.some((range) => prefixContains(range, from.address!))) {
    return stopped(from, "dropped", "source-range");
  }
  const onlySources = from.address === undefined ? admitted : undefined;
  if (frontend.verdict === "reject") {
    const isRefused = from.origin !== "node" || destination.isThisNode || refusesOwnTraffic;
    if (!isRefused) return stopped(from, "untouched", "not-refused-here");
    return { ...stopped(from, "rejected", "no-endpoints"), onlySources };
  }
  const outcome = byExternalPolicy(hit, from, settings);
  if (!destination.isClusterIP || !traffic.masqueradesByAddress || !outcome.masquerade) {
    return { ...outcome, onlySources };
  }
  const byAddress = clusterIPMasquerade(from, settings);
  return { ...outcome, onlySources, masquerade: byAddress?.applies ? byAddress : outcome.masquerade };
}

function byExternalPolicy({ frontend, port }: FrontendHit, from: Source, settings: FamilySettings): Outcome {
  const { verdict, ownVerdict } = frontend;
  if (verdict === "cluster") {
    return balanced(port, "cluster", from, { applies: true, reason: "external-policy-cluster" });
  }
  if (ownVerdict === "cluster" && isLocalTraffic(from, settings)) {
    return balanced(port, "cluster", from, { applies: false, reason: "from-local-pod" });
  }
  if (ownVerdict === "cluster" && from.origin === "node") {
    return balanced(port, "cluster", from, { applies: true, reason: "from-this-node" });
  }
  if (verdict === "drop") return stopped(from, "dropped", "no-local-endpoints");
  return balanced(port, "local", from, { applies: false, reason: "external-policy-local" });
}
