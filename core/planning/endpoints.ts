import { compact } from "../../platform/mod.ts";
import type { SliceEndpoint } from "../objects/mod.ts";
import type { ServiceEndpoint } from "../tracking/mod.ts";

/** Where the traffic comes from: this node. */
export interface NodeContext {
  readonly name: string;
  /** Empty where it is not known. */
  readonly zone: string;
}

/** What a service port needs endpoints for. */
export interface EndpointUse {
  /** Whether any of its traffic goes by traffic policy Cluster. */
  readonly cluster: boolean;
  /** Whether any of its traffic goes by traffic policy Local. */
  readonly local: boolean;
}

/** Which endpoints a service port uses, as targets (`address:port`) in the order given. */
export interface EndpointCategories {
  /** For policy Cluster; empty where nothing uses it. */
  readonly cluster: readonly string[];
  /** For policy Local; empty where nothing uses it. */
  readonly local: readonly string[];
  /** Those of the above that are on this node. */
  readonly onThisNode: readonly string[];
  /** None of the above, yet serving: flows that they have may stay. */
  readonly lingering: readonly string[];
  /** Whether any endpoint anywhere could serve, even where none of them may from here. */
  readonly anyUsable: boolean;
}

/** By which hints the endpoints for policy Cluster are chosen (`trafficDistribution`, KEP-2433 and KEP-3015). */
export type TopologyMode = "any" | "same-zone" | "same-node";

/**
 * What a policy makes of an endpoint:
 * - `ready`: it is used;
 * - `fallback`: it is terminating but still serving, and used because no endpoint is ready (KEP-1669);
 * - `not-ready`, and neither serving nor terminating so that it could be a fallback;
 * - `terminating`: it is serving, but not needed as a fallback;
 * - `other-zone`, `other-node`: its hints give it to others;
 * - `remote`: the policy is Local and it is on another node;
 * - `unused`: nothing uses this policy.
 */
export type EndpointFate =
  | "ready"
  | "fallback"
  | "not-ready"
  | "terminating"
  | "other-zone"
  | "other-node"
  | "remote"
  | "unused";

/** Why the endpoints of a service port are used or not. */
export interface EndpointExplanation {
  readonly topology: TopologyMode;
  /** Why hints were passed over, one sentence each; empty where there are none to speak of. */
  readonly ignoredHints: readonly string[];
  readonly endpoints: readonly {
    readonly target: string;
    readonly cluster: EndpointFate;
    readonly local: EndpointFate;
  }[];
}

/**
 * Decides which endpoints serve which policy on this node, as kube-proxy's CategorizeEndpoints does: ready ones, and
 * where there is none those that are terminating and still serving, decided for each policy by itself; for policy
 * Cluster by topology hints where they can be trusted.
 */
export function categorizeEndpoints(
  endpoints: readonly ServiceEndpoint[],
  use: EndpointUse,
  node: NodeContext,
): EndpointCategories {
  const survey = surveyEndpoints(endpoints, use, node);
  const cluster: string[] = [];
  const local: string[] = [];
  const onThisNode: string[] = [];
  const lingering: string[] = [];
  for (const { target, endpoint } of endpoints) {
    const inCluster = isUsed(clusterFate(endpoint, survey));
    const inLocal = isUsed(localFate(endpoint, survey));
    if (inCluster) cluster.push(target);
    if (inLocal) local.push(target);
    if (inCluster || inLocal) {
      if (isOn(node, endpoint)) onThisNode.push(target);
    } else if (endpoint.serving) {
      lingering.push(target);
    }
  }
  return {
    cluster: compact(cluster),
    local: compact(local),
    onThisNode: compact(onThisNode),
    lingering: compact(lingering),
    anyUsable: survey.ready > 0 || survey.terminating > 0,
  };
}

/** Says for each endpoint what `categorizeEndpoints` makes of it. */
export function explainEndpoints(
  endpoints: readonly ServiceEndpoint[],
  use: EndpointUse,
  node: NodeContext,
): EndpointExplanation {
  const survey = surveyEndpoints(endpoints, use, node);
  return {
    topology: survey.topology,
    ignoredHints: ignoredHints(survey),
    endpoints: endpoints.map(({ target, endpoint }) => ({
      target,
      cluster: clusterFate(endpoint, survey),
      local: localFate(endpoint, survey),
    })),
  };
}

/** What must be known of all endpoints before anything can be said of one. */
interface Survey {
  readonly use: EndpointUse;
  readonly node: NodeContext;
  readonly ready: number;
  /** How many are terminating and serving, and not ready. */
  readonly terminating: number;
  readonly localReady: number;
  /** Among the ready ones, how many have a hint, and how many one for this node or zone. */
  readonly withNodeHint: number;
  readonly forThisNode: number;
  readonly withZoneHint: number;
  readonly forThisZone: number;
  readonly topology: TopologyMode;
}

function surveyEndpoints(endpoints: readonly ServiceEndpoint[], use: EndpointUse, node: NodeContext): Survey {
  let ready = 0, terminating = 0, localReady = 0, withNodeHint = 0, forThisNode = 0, withZoneHint = 0, forThisZone = 0;
  for (const { endpoint } of endpoints) {
    if (endpoint.ready) {
      ready++;
      if (isOn(node, endpoint)) localReady++;
      if (endpoint.nodeHints?.length) withNodeHint++;
      if (endpoint.nodeHints?.includes(node.name)) forThisNode++;
      if (endpoint.zoneHints?.length) withZoneHint++;
      if (endpoint.zoneHints?.includes(node.zone)) forThisZone++;
    } else if (canBeFallback(endpoint)) {
      terminating++;
    }
  }
  // A hint counts only where every ready endpoint has one and one of them is for here: anything less means that the
  // control plane has not caught up, and following it would overload some endpoints or leave us with none.
  const topology = !use.cluster || ready === 0
    ? "any"
    : withNodeHint === ready && forThisNode > 0
    ? "same-node"
    : withZoneHint === ready && forThisZone > 0
    ? "same-zone"
    : "any";
  return { use, node, ready, terminating, localReady, withNodeHint, forThisNode, withZoneHint, forThisZone, topology };
}

function clusterFate(endpoint: SliceEndpoint, survey: Survey): EndpointFate {
  if (!survey.use.cluster) return "unused";
  if (!endpoint.ready) return unreadyFate(endpoint, survey.ready > 0);
  if (survey.topology === "same-node") return endpoint.nodeHints!.includes(survey.node.name) ? "ready" : "other-node";
  if (survey.topology === "same-zone") return endpoint.zoneHints!.includes(survey.node.zone) ? "ready" : "other-zone";
  return "ready";
}

function localFate(endpoint: SliceEndpoint, survey: Survey): EndpointFate {
  if (!survey.use.local) return "unused";
  if (!isOn(survey.node, endpoint)) return "remote";
  return endpoint.ready ? "ready" : unreadyFate(endpoint, survey.localReady > 0);
}

function unreadyFate(endpoint: SliceEndpoint, othersAreReady: boolean): EndpointFate {
  if (!canBeFallback(endpoint)) return "not-ready";
  return othersAreReady ? "terminating" : "fallback";
}

function ignoredHints(survey: Survey): string[] {
  const { use, node, ready, topology } = survey;
  if (!use.cluster || topology === "same-node") return [];
  const reasons: string[] = [];
  const complain = (kind: "node" | "zone", hinted: number, here: string) => {
    if (hinted === 0) return;
    if (hinted < ready) reasons.push(`${ready - hinted} of ${ready} ready endpoints have no ${kind} hint`);
    else if (here === "") reasons.push(`the ${kind} of this node is not known`);
    else reasons.push(`no endpoint is meant for ${kind} ${here}`);
  };
  complain("node", survey.withNodeHint, node.name);
  if (topology !== "same-zone") complain("zone", survey.withZoneHint, node.zone);
  return reasons;
}

function isUsed(fate: EndpointFate): boolean {
  return fate === "ready" || fate === "fallback";
}

function canBeFallback(endpoint: SliceEndpoint): boolean {
  return endpoint.serving && endpoint.terminating;
}

function isOn(node: NodeContext, endpoint: SliceEndpoint): boolean {
  return node.name !== "" && endpoint.nodeName === node.name;
}
