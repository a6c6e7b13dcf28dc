/** Lists of services and endpoints, and searches in them. */
import type { AnswerBasis } from "./basis.ts";
import { explainServiceEndpoints, portOf } from "./endpoints.ts";
import type { ExplainedEndpoint } from "./explanation.ts";
import type { Effect } from "../core/channel/mod.ts";
import {
  type CountedTraffic,
  hasExternalFrontends,
  type Protocol,
  type ServicePort,
  type ServicePortName,
  type ServiceTraffic,
  type Verdict,
} from "../core/model/mod.ts";
import type { PlannedPort } from "../core/planning/mod.ts";
import { countText, FAMILIES, type Family, joinHostPort, plural } from "../platform/mod.ts";

/** The fields of a service port that a list shows. */
type ListedField =
  | ("name" | "protocol" | "clusterIP" | "port" | "externalIPs" | "loadBalancerIPs" | "nodePort" | "nodePortPrefixes")
  | ("internal" | "external" | "affinitySeconds" | "balance");

/** A planned service port of one family. */
export interface ListedService extends Pick<ServicePort, ListedField> {
  readonly family: Family;
  readonly type: string;
  /** The number of endpoints in use; `endpoints` is the number of all. */
  readonly usedEndpoints: number;
  readonly endpoints: number;
  /** The frontends that it lost to other service ports, one sentence each. */
  readonly problems: readonly string[];
  readonly served: boolean;
  /** Whether its last change is in the kernel; undefined if no proxy runs. */
  readonly effect: Effect | undefined;
  /** Absent if traffic metrics are off, or no proxy runs. */
  readonly traffic?: ServiceTraffic;
}

/** An endpoint of a service port of one family. */
export interface ListedEndpoint extends ExplainedEndpoint {
  readonly service: ServicePortName;
  readonly family: Family;
  readonly protocol: Protocol;
  /** Absent if traffic metrics are off, or no proxy runs. */
  readonly traffic?: CountedTraffic;
}

/** Lists the service ports whose name contains `search`, with their endpoints; all by default. */
export function list(basis: AnswerBasis, search: string): readonly ListedPort[] {
  return findServicePorts(basis, ({ owner }) => owner.wanted.name.includes(search))
    .flatMap((found) => listed(basis, found) ?? []);
}

interface FoundServicePort {
  readonly family: Family;
  readonly owner: PlannedPort;
}

/** Finds service ports, sorted by name and family. It is cheap: `listed` collects the details. */
function findServicePorts(
  basis: AnswerBasis,
  isWanted: (found: FoundServicePort) => boolean,
): readonly FoundServicePort[] {
  const found = FAMILIES.flatMap((family) =>
    [...basis.families[family].planner.ports()].map((owner) => ({ family, owner })).filter(isWanted)
  );
  const order = (a: string, b: string) => a < b ? -1 : a > b ? 1 : 0;
  return found.sort((a, b) => order(a.owner.key, b.owner.key));
}

interface ListedPort {
  readonly service: ListedService;
  readonly endpoints: readonly ListedEndpoint[];
}

/** The details of a service port; undefined if its service has changed since it was planned. */
function listed(basis: AnswerBasis, { family, owner }: FoundServicePort): ListedPort | undefined {
  const { families, traffic } = basis;
  const { planned, wanted, reported } = owner;
  const port = planned ?? wanted;
  const explained = portOf(basis, owner.service, port);
  if (explained === undefined) return undefined;
  const { endpoints } = explainServiceEndpoints(basis, explained);
  const { name, protocol, clusterIP, externalIPs, loadBalancerIPs, nodePort, internal, external, affinitySeconds } =
    port;
  const frontends = { clusterIP, port: port.port, externalIPs, loadBalancerIPs, nodePort, internal, external };
  return {
    service: {
      ...{ name, family, type: explained.service.type, protocol, ...frontends },
      usedEndpoints: endpoints.filter(({ used }) => used).length,
      endpoints: endpoints.length,
      affinitySeconds,
      ...port.nodePortPrefixes && { nodePortPrefixes: port.nodePortPrefixes },
      ...port.balance && { balance: port.balance },
      problems: reported,
      served: planned !== undefined,
      effect: families[family].since(owner),
      ...(traffic && { traffic: traffic.ofPort(family, owner.key) }),
    },
    endpoints: endpoints.map((endpoint): ListedEndpoint => ({
      service: wanted.name,
      family,
      protocol: wanted.protocol,
      ...endpoint,
      ...(traffic && { traffic: traffic.ofEndpoint(family, owner.key, endpoint.target) }),
    })),
  };
}

/**
 * The frontends of a service port, each as `address:port`; the node port as `*:port`, or as `prefix:port` for each prefix that its
 * service limits it to.
 */
export function frontendsOfService(service: ListedService): readonly string[] {
  const addresses = [service.clusterIP, ...service.loadBalancerIPs, ...service.externalIPs];
  const at = addresses.map((address) => joinHostPort(address, service.port));
  if (service.nodePort === 0) return at;
  const nodeAddresses = service.nodePortPrefixes ?? ["*"];
  return [...at, ...nodeAddresses.map((address) => joinHostPort(address, service.nodePort))];
}

interface ServiceState {
  readonly tone: "good" | "warning" | "waiting" | "bad";
  /** Its problems, one sentence each; none if the tone is good. */
  readonly notes: readonly string[];
}

/** Returns the state of a service port: not served or refused, waiting for its last change, or in effect with or without problems. */
export function stateOfService(service: ListedService): ServiceState {
  const { served, effect, problems } = service;
  const notes = [...problems, ...stoppedTraffic(service)];
  if (!served || effect?.state === "refused") return { tone: "bad", notes };
  if (effect?.state === "waiting") return { tone: "waiting", notes };
  return { tone: notes.length > 0 ? "warning" : "good", notes };
}

/** The traffic of a service port that is stopped, and why, one sentence each. */
function stoppedTraffic(service: ListedService): readonly string[] {
  if (!service.served) return ["Not served: another service has its cluster IP."];
  if (service.effect?.state === "refused") {
    return [`Not in effect: the kernel refuses its rules: ${service.effect.refusal}`];
  }
  const { internal, external } = service;
  const inside = stopText(internal), outside = hasExternalFrontends(service) ? stopText(external) : undefined;
  return [
    ...(inside === undefined ? [] : [`Traffic to the cluster IP is ${inside}.`]),
    ...(outside === undefined ? [] : [`Traffic from outside is ${outside}.`]),
  ];
}

/** The packets of new connections that failed, by reason: `no-endpoints 12, source-range 3`; empty if none did. */
export function failuresText({ failures = {} }: ServiceTraffic): string {
  return Object.entries(failures).map(([reason, packets]) => `${reason} ${countText(packets)}`).join(", ");
}

function stopText(verdict: Verdict): string | undefined {
  if (verdict === "reject") return "rejected: no usable endpoint";
  if (verdict === "drop") return "dropped: traffic policy Local, and this node has no usable endpoint";
  return undefined;
}

/** The reasons why a service port needs attention, the worst first, as the end of their count. */
const ATTENTION = {
  refused: "refused by the kernel",
  unserved: "whose address another service has",
  limited: "with a problem",
  empty: "without endpoints",
} as const;

/** One of `ATTENTION`. With `refused`, the rules are broken; the others are decisions, of Sluice or of the cluster. */
type AttentionReason = keyof typeof ATTENTION;

/** The numbers of service ports that need attention, by reason. */
export type Attention = Readonly<Record<AttentionReason, number>>;

/** Service ports that need attention: `2 service ports refused by the kernel, 1 without endpoints`; empty if none does. */
export function attentionText(attention: Attention): string {
  const counted = (Object.keys(ATTENTION) as AttentionReason[]).filter((reason) => attention[reason] > 0);
  return counted.map((reason, i) => {
    const count = attention[reason];
    return `${i === 0 ? plural(count, "service port") : countText(count)} ${ATTENTION[reason]}`;
  }).join(", ");
}

/** The orders of services: those that need attention first, by name, fewest endpoints first, last changed first, or most traffic first. */
export const SERVICE_ORDERS = ["attention", "name", "endpoints", "changed", "traffic"] as const;

/** Selects a page of services. */
export interface BrowseQuestion {
  readonly search: string;
  /** Only services of this namespace; of all by default. */
  readonly namespace?: string;
  readonly attention: boolean;
  /** By name by default; services that are equal in another order are sorted by name. */
  readonly order?: typeof SERVICE_ORDERS[number];
  /** Counted from 1; a number past the end selects the last page. */
  readonly page: number;
  readonly pageSize: number;
}

/** A service port and the endpoints that are shown. */
export interface BrowsedService extends ListedService {
  /** Unused endpoints first; truncated if there are fewer than `endpoints`. */
  readonly shownEndpoints: readonly ListedEndpoint[];
}

/** A page of service ports. */
export interface ServicePage {
  /** The number of service ports on all pages. */
  readonly total: number;
  readonly page: number;
  readonly pages: number;
  readonly services: readonly BrowsedService[];
  /** The service ports of the cluster that need attention, regardless of the selection. */
  readonly attention: Attention;
  /** The names of all namespaces with services, sorted. */
  readonly namespaces: readonly string[];
  /** Whether traffic is counted, so that services have `traffic`; absent if it is not. */
  readonly countsTraffic?: true;
}

/** Each service shows few endpoints on a page of many services, and nearly all on a page of few. */
const FEW_SERVICES = 4;
const MOST_ENDPOINTS = { ofFew: 500, ofMany: 12 };

/** Returns a page of services. Only those on the page are examined in detail. */
export function browse(
  basis: AnswerBasis,
  { search, namespace = "", attention, order = "name", page: requestedPage, pageSize }: BrowseQuestion,
): ServicePage {
  const needy = new Map<PlannedPort, AttentionReason>(), namespaces = new Set<string>();
  const isWanted = (found: FoundServicePort) => {
    const { owner } = found, ofService = owner.service.slice(0, owner.service.indexOf("/"));
    namespaces.add(ofService);
    const reason = attentionReason(basis, found);
    if (reason !== undefined) needy.set(owner, reason);
    return owner.wanted.name.includes(search) && (namespace === "" || namespace === ofService) &&
      (!attention || reason !== undefined);
  };
  const found = inOrder(basis, findServicePorts(basis, isWanted), order, needy);
  const pages = Math.max(1, Math.ceil(found.length / pageSize));
  const page = Math.min(Math.max(1, requestedPage), pages);
  const most = found.length <= FEW_SERVICES ? MOST_ENDPOINTS.ofFew : MOST_ENDPOINTS.ofMany;
  const services = found.slice((page - 1) * pageSize, page * pageSize).flatMap((one): BrowsedService[] => {
    const all = listed(basis, one);
    if (all === undefined) return [];
    const outFirst = [...all.endpoints].sort((a, b) => Number(a.used) - Number(b.used));
    return [{ ...all.service, shownEndpoints: outFirst.slice(0, most) }];
  });
  const counts = { refused: 0, unserved: 0, limited: 0, empty: 0 };
  for (const reason of needy.values()) counts[reason]++;
  return {
    ...{ total: found.length, page, pages, services, attention: counts, namespaces: [...namespaces].sort() },
    ...(basis.traffic && { countsTraffic: true }),
  };
}

/** Sorts service ports, given by name, in another order. */
function inOrder(
  basis: AnswerBasis,
  found: readonly FoundServicePort[],
  order: BrowseQuestion["order"],
  needy: ReadonlyMap<PlannedPort, AttentionReason>,
): readonly FoundServicePort[] {
  if (order === "name") return found;
  const rank = (one: FoundServicePort): number => {
    const { owner } = one;
    switch (order) {
      case "endpoints":
        return new Set([...owner.wanted.clusterEndpoints, ...owner.wanted.localEndpoints]).size;
      case "traffic": {
        const { bytes = 0, connections = 0 } = basis.traffic?.ofPort(one.family, owner.key).perSecond ?? {};
        return -(bytes + connections);
      }
      case "changed":
        return -owner.plannedIn;
      default:
        return [...Object.keys(ATTENTION), undefined].indexOf(needy.get(owner));
    }
  };
  return found.map((one) => ({ one, rank: rank(one) })).sort((a, b) => a.rank - b.rank).map(({ one }) => one);
}

/**
 * The reason why a service port needs attention. Traffic policy Local without an endpoint on this node is none: load balancers
 * send nothing to such a node.
 */
function attentionReason({ families }: AnswerBasis, { owner, family }: FoundServicePort): AttentionReason | undefined {
  const { planned, reported } = owner;
  if (planned === undefined) return "unserved";
  if (families[family].since(owner)?.state === "refused") return "refused";
  if (reported.length > 0) return "limited";
  const isEmpty = planned.internal === "reject" || hasExternalFrontends(planned) && planned.external === "reject";
  return isEmpty ? "empty" : undefined;
}
