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
  /** Endpoints that a policy would use, but that do not answer; empty unless failures are detected. */
  readonly unreachable: readonly string[];
  /** Whether any endpoint in the cluster could serve, even if no policy uses it here. */
  readonly anyUsable: boolean;
}

/** The hints that choose the endpoints for policy Cluster (`trafficDistribution`, KEP-2433 and KEP-3015). */
export type TopologyMode = "any" | "same-zone" | "same-node";

/** Whether and why a policy uses an endpoint. */
export type EndpointFate =
  | "ready" // it is used
  | "fallback" // it is terminating but still serving, and used because no endpoint is ready (KEP-1669)
  | "not-ready" // and it cannot be a fallback
  | "terminating" // and still serving, but not needed as a fallback
  | "other-zone" // its hints are for another zone
  | "other-node"
  | "unreachable" // it would be used, but does not answer this node, and at least as many others are used instead
  | "remote" // the policy is Local and it is on another node
  | "unused"; // no traffic has this policy

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
 * can be trusted. Leaves out `unreachable` targets as far as `leaveOut` permits.
 */
export function categorizeEndpoints(
  endpoints: readonly ServiceEndpoint[],
  use: EndpointUse,
  node: NodeContext,
  unreachable: ReadonlySet<string> = NONE,
): EndpointCategories {
  const survey = surveyEndpoints(endpoints, use, node);
  const fates = fatesOf(endpoints, survey, unreachable);
  const cluster: string[] = [], local: string[] = [], onThisNode: string[] = [], lingering: string[] = [];
  for (const { target, endpoint } of endpoints) {
    const inCluster = isUsed(fates.cluster(target, endpoint));
    const inLocal = isUsed(fates.local(target, endpoint));
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
    unreachable: fates.leftOut,
    anyUsable: survey.ready > 0 || survey.terminating > 0,
  };
}

/** Returns the fate of each endpoint in `categorizeEndpoints`. */
export function explainEndpoints(
  endpoints: readonly ServiceEndpoint[],
  use: EndpointUse,
  node: NodeContext,
  unreachable: ReadonlySet<string> = NONE,
): EndpointExplanation {
  const survey = surveyEndpoints(endpoints, use, node);
  const fates = fatesOf(endpoints, survey, unreachable);
  return {
    topology: survey.topology,
    ignoredHints: ignoredHints(survey),
    endpoints: endpoints.map(({ target, endpoint }) => ({
      target,
      cluster: fates.cluster(target, endpoint),
      local: fates.local(target, endpoint),
    })),
  };
}

const NONE: ReadonlySet<string> = new Set();

function fatesOf(endpoints: readonly ServiceEndpoint[], survey: Survey, unreachable: ReadonlySet<string>) {
  const cluster = (endpoint: SliceEndpoint) => clusterFate(endpoint, survey);
  const local = (endpoint: SliceEndpoint) => localFate(endpoint, survey);
  const outOfCluster = leaveOut(endpoints, unreachable, cluster);
  const outOfLocal = leaveOut(endpoints, unreachable, local);
  return {
    cluster: (target: string, endpoint: SliceEndpoint) => outOfCluster.has(target) ? "unreachable" : cluster(endpoint),
    local: (target: string, endpoint: SliceEndpoint) => outOfLocal.has(target) ? "unreachable" : local(endpoint),
    /** The targets that at least one policy leaves out. */
    leftOut: unreachable.size === 0 ? [] : [...outOfCluster.union(outOfLocal)].sort(),
  };
}

/** The unreachable endpoints that a policy leaves out: the first ones, at most half of those that it would use. */
function leaveOut(
  endpoints: readonly ServiceEndpoint[],
  unreachable: ReadonlySet<string>,
  fate: (endpoint: SliceEndpoint) => EndpointFate,
): ReadonlySet<string> {
  // Most plans: without the detection, or while every endpoint answers.
  if (unreachable.size === 0) return NONE;
  const used = endpoints.filter(({ endpoint }) => isUsed(fate(endpoint))).map(({ target }) => target);
  return new Set(used.filter((target) => unreachable.has(target)).slice(0, Math.floor(used.length / 2)));
}

/** Facts about all endpoints that the fate of each depends on. */
interface Survey {
  readonly use: EndpointUse;
  readonly node: NodeContext;
  readonly ready: number;
  /** The number of endpoints that are not ready, but terminating and still serving. */
  readonly terminating: number;
  readonly localReady: number;
  /** The number of ready endpoints with a hint. */
  readonly withNodeHint: number;
  readonly withZoneHint: number;
  readonly topology: TopologyMode;
}

function surveyEndpoints(endpoints: readonly ServiceEndpoint[], use: EndpointUse, node: NodeContext): Survey {
  let ready = 0, terminating = 0, localReady = 0, withNodeHint = 0, forThisNode = 0, withZoneHint = 0, forThisZone = 0;
  for (const { endpoint } of endpoints) {
    if (endpoint.ready) {
      ready++;
      if (isOn(node, endpoint)) localReady++;
      if (!blocksNodeHints(endpoint)) withNodeHint++;
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
  return { use, node, ready, terminating, localReady, withNodeHint, withZoneHint, topology };
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

/** Whether a policy can use an endpoint, if only as a fallback. */
export function isUsable(endpoint: SliceEndpoint): boolean {
  return endpoint.ready || canBeFallback(endpoint);
}

function canBeFallback(endpoint: SliceEndpoint): boolean {
  return endpoint.serving && endpoint.terminating;
}

/** Whether an endpoint keeps the node hints of all others from being followed. */
export function blocksNodeHints({ ready, nodeHints }: SliceEndpoint): boolean {
  return ready && !nodeHints?.length;
}

/** Whether an endpoint is on a node; false if the node has no name. */
export function isOn(node: NodeContext, endpoint: SliceEndpoint): boolean {
  return node.name !== "" && endpoint.nodeName === node.name;
}
