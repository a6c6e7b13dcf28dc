import { familyOf, isLoopback, prefixContains, splitHostPort } from "../platform/mod.ts";
import type { FamilySettings } from "../core/model/mod.ts";
import type { AnswerBasis } from "./basis.ts";
import { explainServiceEndpoints, specOf } from "./endpoints.ts";
import type { ExplainedEndpoint, ExplainedRules, ExplainedService, Explanation } from "./explanation.ts";
import { type Destination, findDestination, type FrontendHit, frontendText } from "./frontend.ts";
import { policiesOf } from "./policies.ts";
import { type Origin, ORIGINS, type Question } from "./question.ts";
import type { From, Way } from "./way.ts";
import { wayTo } from "./ways.ts";

/** Answers a question: every decision in it is the planner's, read off what it planned. */
export async function explain(question: Question, basis: AnswerBasis): Promise<Explanation> {
  const { family, address, port, protocol } = question;
  const of = basis.families[family];
  const settings = of.settings();
  const nodeAddresses = [...new Set([settings.nodeIP, ...basis.hostAddresses()])].filter((own) =>
    familyOf(own) === family && !isLoopback(own)
  );
  const destination = findDestination(question, { planned: of.planner.ports(), settings, nodeAddresses });
  const { from, remark } = froms(question, basis, destination, nodeAddresses, settings);
  const ways = from.map((one) => wayTo(destination, one, settings));
  const { zone } = basis.tracking.node.state();
  return {
    destination: { family, address, port, protocol },
    mode: settings.mode,
    node: { name: basis.nodeName, zone, address: settings.nodeIP },
    service: destination.hit && await explainService(question, destination.hit, ways, basis, settings),
    ways,
    remarks: [...destination.remarks, ...remarksOn(destination), ...remark],
  };
}

async function explainService(
  question: Question,
  { kind, owner, port }: FrontendHit,
  ways: readonly Way[],
  basis: AnswerBasis,
  settings: FamilySettings,
): Promise<ExplainedService | undefined> {
  const { family, address } = question;
  const service = basis.tracking.services.get(owner.service);
  const spec = service && specOf(service, port);
  // Between a change and its plan, the service may be another than the one that was planned.
  if (service === undefined || spec === undefined) return undefined;
  const node = { name: basis.nodeName, zone: basis.tracking.node.state().zone };
  const asked = new Set(ways.flatMap(({ policy }) => policy ?? []));
  const policies = asked.size === 0 ? undefined : asked;
  const endpoints = explainServiceEndpoints(basis.tracking, { service, spec, family, node, policies });
  const reached = new Set(ways.flatMap((way) => way.endpoints));
  return {
    name: port.name,
    type: service.type,
    frontend: kind,
    frontendText: frontendText(kind, port, address),
    policies: policiesOf({ service, spec, port, frontend: kind, endpoints, settings, node }),
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

/** Where connections are to come from, for a question. */
function froms(
  { from, address }: Question,
  basis: AnswerBasis,
  destination: Destination,
  nodeAddresses: readonly string[],
  settings: FamilySettings,
): { readonly from: readonly From[]; readonly remark: readonly string[] } {
  // What a node sends to an address of its own comes from that very address.
  const isOwn = destination.isThisNode || settings.mode === "ipvs" && destination.isBound;
  const nodeSource = isOwn ? address : settings.nodeIP;
  const any = (origin: Origin): From => ({ origin, address: origin === "node" ? nodeSource : undefined });
  if (from === undefined) return { from: ORIGINS.map(any), remark: [] };
  const named = ORIGINS.find((origin) => origin === from);
  if (named !== undefined) return { from: [any(named)], remark: [] };
  const origin = originOf(from, basis, nodeAddresses, settings);
  const isByInterface = settings.localTraffic.by === "bridge" || settings.localTraffic.by === "interface-prefix";
  const remark = origin === "outside" && isByInterface
    ? [`${from} is not known as a pod's address on this node, and is taken for one from outside (see --from pod)`]
    : [];
  return { from: [{ origin, address: from }], remark };
}

/** Whose address it is: this node's, one of a pod on it, or another. */
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
