import type { ModeDescription, ModeTraffic } from "../backends/contract/mod.ts";
import { familyOf, isLoopback, prefixContains, splitHostPort } from "../platform/mod.ts";
import type { FamilySettings, Protocol } from "../core/model/mod.ts";
import { balanceRequest, CANARY_KEY } from "../core/planning/mod.ts";
import type { AnswerBasis } from "./basis.ts";
import { explainServiceEndpoints, specOf } from "./endpoints.ts";
import type { ExplainedEndpoint, ExplainedRules, ExplainedService, Explanation } from "./explanation.ts";
import { type Destination, findDestination, type FrontendHit, frontendText } from "./frontend.ts";
import { policiesOf } from "./policies.ts";
import { type Origin, ORIGINS, type Question } from "./question.ts";
import { outcomeByVirtualServers } from "./ipvs_outcome.ts";
import type { Outcome, Source } from "./outcome.ts";
import { isRelayed, outcomeAtLocalhost, relayRemark, throughRelay } from "./relay_outcome.ts";
import { outcomeByRules } from "./rules_outcome.ts";

const CANARY_REMARK =
  "this is the canary of Sluice, which answers it itself (docs/health.md); no Service has this address";

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
      ...balanceRemarks(destination, basis),
      ...(destination.hit?.owner.service === CANARY_KEY ? [CANARY_REMARK] : []),
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

/** The annotations of the service that have no effect on how it is balanced. */
function balanceRemarks({ hit }: Destination, { tracking, balance }: AnswerBasis): readonly string[] {
  const service = hit && tracking.services.get(hit.owner.service);
  return service === undefined ? [] : balanceRequest(service, balance).problems;
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
