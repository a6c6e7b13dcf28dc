import { compact } from "../../platform/mod.ts";
import type { SliceEndpoint } from "../objects/mod.ts";
import type { ServiceEndpoint } from "../tracking/mod.ts";

/** This node, as the source of the traffic. */
export interface NodeContext {
  readonly name: string;
  /** Empty if unknown. */
  readonly zone: string;
}

/** The policies that a service port needs endpoints for. */
export interface EndpointUse {
  /** Whether any traffic has policy Cluster. */
  readonly cluster: boolean;
  /** Whether any traffic has policy Local. */
  readonly local: boolean;
}

/** The endpoints that a service port uses, as targets (`address:port`) in the given order. */
export interface EndpointCategories {
  /** For policy Cluster; empty if no traffic has it. */
  readonly cluster: readonly string[];
  /** For policy Local; empty if no traffic has it. */
  readonly local: readonly string[];
  /** The endpoints of both lists that are on this node. */
  readonly onThisNode: readonly string[];
  /** Endpoints that are not used but still serve: existing flows may continue. */
  readonly lingering: readonly string[];
  /** Whether any endpoint in the cluster could serve, even if no policy uses it here. */
  readonly anyUsable: boolean;
}

/** The hints that choose the endpoints for policy Cluster (`trafficDistribution`, KEP-2433 and KEP-3015). */
export type TopologyMode = "any" | "same-zone" | "same-node";

/**
 * Whether and why a policy uses an endpoint:
 * - `ready`: it is used;
 * - `fallback`: it is terminating but still serving, and used because no endpoint is ready (KEP-1669);
 * - `not-ready`: it is not ready and cannot be a fallback;
 * - `terminating`: it is terminating and still serving, but not needed as a fallback;
 * - `other-zone`, `other-node`: its hints are for another zone or node;
 * - `remote`: the policy is Local and it is on another node;
 * - `unused`: no traffic has this policy.
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

/** Explains which endpoints of a service port are used. */
export interface EndpointExplanation {
  readonly topology: TopologyMode;
  /** The reasons why hints are ignored, one sentence each. */
  readonly ignoredHints: readonly string[];
  readonly endpoints: readonly {
    readonly target: string;
    readonly cluster: EndpointFate;
    readonly local: EndpointFate;
  }[];
}

/**
 * Decides which endpoints serve each policy on this node, as kube-proxy's CategorizeEndpoints does. Each policy uses ready
 * endpoints, or if it has none, those that are terminating and still serving. Policy Cluster follows topology hints if they
 * can be trusted.
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

/** Returns the fate of each endpoint in `categorizeEndpoints`. */
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

/** Facts about all endpoints that the fate of each depends on. */
interface Survey {
  readonly use: EndpointUse;
  readonly node: NodeContext;
  readonly ready: number;
  /** The number of endpoints that are not ready, but terminating and still serving. */
  readonly terminating: number;
  readonly localReady: number;
  /** The number of ready endpoints with a hint, and with a hint for this node or zone. */
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
  // Hints count only if every ready endpoint has one and one of them is for this node or zone. Otherwise the control plane
  // has not caught up, and following them would overload some endpoints or leave this node with none.
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
  const addReason = (kind: "node" | "zone", hinted: number, here: string) => {
    if (hinted === 0) return;
    if (hinted < ready) reasons.push(`${ready - hinted} of ${ready} ready endpoints have no ${kind} hint`);
    else if (here === "") reasons.push(`the ${kind} of this node is unknown`);
    else reasons.push(`no ready endpoint has a hint for ${kind} ${here}`);
  };
  addReason("node", survey.withNodeHint, node.name);
  if (topology !== "same-zone") addReason("zone", survey.withZoneHint, node.zone);
  return reasons;
}

/** Whether a policy uses endpoints with this fate. */
export function isUsed(fate: EndpointFate): boolean {
  return fate === "ready" || fate === "fallback";
}

function canBeFallback(endpoint: SliceEndpoint): boolean {
  return endpoint.serving && endpoint.terminating;
}

function isOn(node: NodeContext, endpoint: SliceEndpoint): boolean {
  return node.name !== "" && endpoint.nodeName === node.name;
}
