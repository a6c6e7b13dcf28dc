import type { FamilySettings } from "../core/model/mod.ts";
import { annotationProblems, INTERNAL_SERVICE } from "../core/planning/mod.ts";
import { familyOf, isLoopback, prefixContains, splitHostPort } from "../platform/mod.ts";
import type { AnswerBasis } from "./basis.ts";
import { explainServiceEndpoints, policiesOf, portOf } from "./endpoints.ts";
import type { ExplainedRules, ExplainedService, Explanation } from "./explanation.ts";
import { type Destination, findDestination, type FrontendHit, frontendText } from "./frontend.ts";
import { isRelayed, type Outcome, outcomeOf, relayRemark, type Source } from "./outcome.ts";
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
  const destination = findDestination(question, [...of.planner.ports()], settings, nodeAddresses);
  const { sources, remarks } = sourcesOf(question, basis, destination, nodeAddresses, settings);
  const outcomes = sources.map((source) => outcomeOf(destination, source, settings, basis.mode, protocol));
  const { zone } = basis.tracking.node.state();
  const service = destination.hit && await explainService(question, destination.hit, outcomes, basis, settings);
  return {
    destination: { family, address, port, protocol },
    mode: basis.mode.name,
    node: { name: basis.nodeName, zone, address: settings.nodeIP },
    service,
    outcomes,
    remarks: [
      ...effectRemarks(service?.rules),
      ...(isRelayed(destination, protocol, basis.mode.relay) ? [relayRemark(protocol)] : []),
      ...destination.remarks,
      ...destination.hit?.owner.reported ?? [],
      ...loserRemarks(destination),
      ...annotationRemarks(destination, question, basis),
      ...(destination.hit?.owner.service === INTERNAL_SERVICE ? [INTERNAL_REMARK] : []),
      ...proxiedRemarks(address, basis),
      ...remarks,
    ],
  };
}

async function explainService(
  { family }: Question,
  { frontend, owner, port }: FrontendHit,
  outcomes: readonly Outcome[],
  basis: AnswerBasis,
  settings: FamilySettings,
): Promise<ExplainedService | undefined> {
  const explained = portOf(basis, owner.service, port);
  if (explained === undefined) return undefined;
  const relevant = new Set(outcomes.flatMap(({ policy }) => policy ?? []));
  const endpoints = explainServiceEndpoints(basis, explained, relevant.size === 0 ? undefined : relevant);
  const reached = new Set(outcomes.flatMap(({ endpoints }) => endpoints));
  const { rules, since } = basis.families[family];
  const description = await rules(owner.key);
  return {
    name: port.name,
    type: explained.service.type,
    frontend: frontend.kind,
    frontendText: frontendText(frontend),
    policies: policiesOf(explained, frontend, endpoints, settings),
    topology: endpoints.topology,
    endpoints: endpoints.endpoints.map((endpoint) => ({ ...endpoint, used: reached.has(endpoint.target) })),
    rules: description && { ...description, from: basis.rulesFrom, since: since(owner) },
  };
}

/** The most service ports that want a frontend of another and are named. Tenants may have thousands. */
const MOST_LOSERS = 8;

function loserRemarks({ losers }: Destination): readonly string[] {
  const more = losers.length - MOST_LOSERS;
  return [
    ...losers.slice(0, MOST_LOSERS).flatMap(({ reported }) => reported),
    ...more > 0 ? [`${more} more service ports claim it, too`] : [],
  ];
}

/** Whether the kernel does not do yet what the explanation says. */
function effectRemarks(rules: ExplainedRules | undefined): readonly string[] {
  if (rules === undefined || rules.from === "rendering") return [];
  if (rules.problem !== undefined || rules.since?.state === "refused") {
    return ["not in effect: the kernel refuses the rules of this service; it may have earlier ones"];
  }
  if (rules.since?.state !== "waiting") return [];
  return ["not in effect yet: the sync that writes these rules has not finished; the kernel may have earlier ones"];
}

/** The services that have the address as a load balancer IP which they leave to the load balancer. */
function proxiedRemarks(address: string, { tracking: { services } }: AnswerBasis): readonly string[] {
  return [...services.keys()].filter((key) => services.get(key)?.proxiedIPs?.includes(address)).map((key) =>
    `${address} is a load balancer IP of ${key} with ipMode Proxy: nodes send such traffic to the load balancer`
  );
}

/** The annotations of the service that have no effect on the frontend, and a limit that prevents one of them. */
function annotationRemarks(
  { hit, unserved }: Destination,
  { family }: Question,
  { tracking, balance, families }: AnswerBasis,
): readonly string[] {
  const key = (hit ?? unserved)?.owner.service, service = key === undefined ? undefined : tracking.services.get(key);
  if (key === undefined || service === undefined) return [];
  const limit = hit && families[family].planner.limitOf(key);
  const problems = annotationProblems(service, balance, hit?.frontend.kind ?? "nodePort");
  return limit === undefined ? problems : [...problems, limit];
}

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
