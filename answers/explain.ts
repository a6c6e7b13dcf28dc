import type { ModeDescription, ModeTraffic } from "../backends/contract/mod.ts";
import type { FamilySettings, Protocol, ServicePort } from "../core/model/mod.ts";
import { balanceRequest, INTERNAL_SERVICE } from "../core/planning/mod.ts";
import { familyOf, isLoopback, prefixContains, splitHostPort } from "../platform/mod.ts";
import type { AnswerBasis } from "./answers.ts";
import { explainServiceEndpoints, policiesOf, specOf } from "./endpoints.ts";
import type { ExplainedEndpoint, ExplainedRules, ExplainedService, Explanation } from "./explanation.ts";
import { type Destination, findDestination, type FrontendHit, frontendText } from "./frontend.ts";
import {
  balanced,
  isLocalTraffic,
  isRelayed,
  type Outcome,
  outcomeAtLocalhost,
  outcomeByRules,
  relayRemark,
  type Source,
  stopped,
  throughRelay,
} from "./outcome.ts";
import { type Origin, ORIGINS, type Question } from "./question.ts";

const INTERNAL_REMARK =
  "Sluice itself answers at this address, to see whether packets flow (docs/health.md); no Service has it";

/** Explains what happens to a new connection, from what the planner decided. */
export async function explain(question: Question, basis: AnswerBasis): Promise<Explanation> {
  const { family, address, port, protocol } = question;
  const of = basis.families[family];
  const settings = of.settings();
  const nodeAddresses = [...new Set([settings.nodeIP, ...basis.hostAddresses()])].filter((own) =>
    familyOf(own) === family && !isLoopback(own)
  );
  const destination = findDestination(question, { planned: () => of.planner.ports(), settings, nodeAddresses });
  const { sources, remarks } = sourcesOf(question, basis, destination, nodeAddresses, settings);
  const outcomes = sources.map((source) => outcomeOf(destination, source, settings, basis.mode, protocol));
  const { zone } = basis.tracking.node.state();
  return {
    destination: { family, address, port, protocol },
    mode: basis.mode.name,
    node: { name: basis.nodeName, zone, address: settings.nodeIP },
    service: destination.hit && await explainService(question, destination.hit, outcomes, basis, settings),
    outcomes,
    remarks: [
      ...(isRelayed(destination, protocol, basis.mode.relay) ? [relayRemark(protocol)] : []),
      ...destination.remarks,
      ...remarksOn(destination),
      ...balanceRemarks(destination, question, basis),
      ...(destination.hit?.owner.service === INTERNAL_SERVICE ? [INTERNAL_REMARK] : []),
      ...remarks,
    ],
  };
}

/**
 * The outcome of a new connection to a destination. The planner has decided everything that does not depend on the
 * connection's source.
 */
function outcomeOf(
  destination: Destination,
  from: Source,
  settings: FamilySettings,
  { traffic, relay }: ModeDescription,
  protocol: Protocol,
): Outcome {
  const relayed = isRelayed(destination, protocol, relay);
  if (relayed && relay === "localhost-node-ports") return outcomeAtLocalhost(destination, from);
  const outcome = outcomeByRulesOrServers(destination, from, settings, traffic);
  return relayed ? throughRelay(outcome) : outcome;
}

function outcomeByRulesOrServers(
  destination: Destination,
  from: Source,
  settings: FamilySettings,
  traffic: ModeTraffic,
): Outcome {
  return traffic.by === "virtual-servers"
    ? outcomeByVirtualServers(destination, from, settings)
    : outcomeByRules(destination, from, settings, traffic);
}

async function explainService(
  question: Question,
  { frontend, owner, port }: FrontendHit,
  outcomes: readonly Outcome[],
  basis: AnswerBasis,
  settings: FamilySettings,
): Promise<ExplainedService | undefined> {
  const { family, address } = question;
  const service = basis.tracking.services.get(owner.service);
  const spec = service && specOf(service, port);
  // The service may have changed since the last plan.
  if (service === undefined || spec === undefined) return undefined;
  const node = { name: basis.nodeName, zone: basis.tracking.node.state().zone };
  const relevant = new Set(outcomes.flatMap(({ policy }) => policy ?? []));
  const policies = relevant.size === 0 ? undefined : relevant;
  const endpoints = explainServiceEndpoints(basis.tracking, { service, spec, family, node, port, policies });
  const reached = new Set(outcomes.flatMap(({ endpoints }) => endpoints));
  return {
    name: port.name,
    type: service.type,
    frontend: frontend.kind,
    frontendText: frontendText(frontend.kind, port, address),
    policies: policiesOf({ service, spec, port, frontend: frontend.kind, endpoints, settings, node }),
    topology: endpoints.topology,
    endpoints: endpoints.endpoints.map((endpoint): ExplainedEndpoint => ({
      ...endpoint,
      used: reached.has(endpoint.target),
    })),
    rules: await explainRules(question, owner, basis),
  };
}

async function explainRules(
  { family }: Question,
  owner: FrontendHit["owner"],
  basis: AnswerBasis,
): Promise<ExplainedRules | undefined> {
  const description = await basis.families[family].rules(owner.key);
  return description && { ...description, from: basis.rulesFrom, since: basis.families[family].since(owner) };
}

function remarksOn({ hit, losers }: Destination): string[] {
  return [...losers, ...(hit ? [hit.owner] : [])].flatMap((port) => port.reported);
}

/** The annotations of the service that have no effect on how it is balanced, and a limit that prevents it. */
function balanceRemarks(
  { hit }: Destination,
  { family }: Question,
  { tracking, balance, families }: AnswerBasis,
): readonly string[] {
  const service = hit && tracking.services.get(hit.owner.service);
  if (service === undefined) return [];
  const limit = families[family].planner.limitOf(hit!.owner.service);
  return [...balanceRequest(service, balance).problems, ...(limit === undefined ? [] : [limit])];
}

/** The sources of the connections that a question covers. */
function sourcesOf(
  { from, address }: Question,
  basis: AnswerBasis,
  destination: Destination,
  nodeAddresses: readonly string[],
  settings: FamilySettings,
): { readonly sources: readonly Source[]; readonly remarks: readonly string[] } {
  // Traffic from the node to one of its own addresses has that address as its source.
  const isOwn = destination.isThisNode || destination.isBound && basis.mode.traffic.by === "virtual-servers";
  const nodeSource = isOwn ? address : settings.nodeIP;
  const any = (origin: Origin): Source => ({ origin, address: origin === "node" ? nodeSource : undefined });
  if (from === undefined) return { sources: ORIGINS.map(any), remarks: [] };
  const named = ORIGINS.find((origin) => origin === from);
  if (named !== undefined) return { sources: [any(named)], remarks: [] };
  const origin = originOf(from, basis, nodeAddresses, settings);
  const isByInterface = settings.localTraffic.by === "bridge" || settings.localTraffic.by === "interface-prefix";
  const remarks = origin === "outside" && isByInterface
    ? [`${from} is not a known pod address on this node; treated as outside traffic (use --from pod otherwise)`]
    : [];
  return { sources: [{ origin, address: from }], remarks };
}

/** The location of an address: on this node, on one of its pods, or elsewhere. */
function originOf(
  address: string,
  basis: AnswerBasis,
  nodeAddresses: readonly string[],
  { localTraffic }: FamilySettings,
): Origin {
  if (isLoopback(address) || nodeAddresses.includes(address)) return "node";
  const podPrefixes = [
    ...(localTraffic.by === "source-prefix" ? [localTraffic.prefix] : []),
    basis.tracking.node.state().podCIDRs[familyOf(address)] ?? [],
  ].flat();
  if (podPrefixes.some((prefix) => prefixContains(prefix, address))) return "pod";
  for (const { planned } of basis.families[familyOf(address)].planner.ports()) {
    if (planned?.endpointsOnThisNode.some((endpoint) => splitHostPort(endpoint).address === address)) return "pod";
  }
  return "outside";
}

/**
 * The outcome of a new connection in a mode with virtual servers (IPVS), as in kube-proxy's: a virtual server has one list of endpoints for all
 * clients, and rejects connections if it is empty. Service addresses are bound to the node; their other ports are
 * closed.
 */
function outcomeByVirtualServers(destination: Destination, from: Source, settings: FamilySettings): Outcome {
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
    // Without endpoints on this node, its pods still reach endpoints on other nodes (kubernetes PR 97081).
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
