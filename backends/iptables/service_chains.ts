import {
  admittedSources,
  type FamilySettings,
  hasExternalFrontends,
  hashOf,
  type ServicePort,
} from "../../core/model/mod.ts";
import { hostPrefix, joinHostPort, sameData } from "../../platform/mod.ts";
import {
  affinityListName,
  BASE,
  destinationPort,
  localMatch,
  namesBeside,
  oneOf,
  type ServiceChainNames,
  serviceChainNames,
  shareOf,
} from "../xtables/mod.ts";

/** Whether a service port has an external chain. */
function usesExternalChain(port: ServicePort): boolean {
  return port.external !== "reject" && hasExternalFrontends(port);
}

/** The groups of the endpoints for a traffic policy that have chains of their own; undefined if one chain has all. */
function groupsOf(port: ServicePort, policy: "cluster" | "local"): readonly EndpointGroup[] | undefined {
  const isPlain = port.affinitySeconds === 0 && port.balance === undefined && port.relay?.[policy] === undefined;
  return isPlain ? endpointGroups(port[`${policy}Endpoints`]) : undefined;
}

const groupChain = (chain: string, { suffix }: EndpointGroup) => `${chain}-${suffix}`;

/** Whether a chain has a group of a service port's endpoints. */
export function isGroupChain(chain: string): boolean {
  return /^KUBE-SV[CL]-.*-/.test(chain);
}

/** The names of a service port's chains; each refers only to earlier ones. */
export function chainsOf(port: ServicePort, names: ServiceChainNames = serviceChainNames(port)): string[] {
  const chains: string[] = [];
  for (const policy of ["cluster", "local"] as const) {
    if (port[`${policy}Endpoints`].length === 0) continue;
    for (const group of groupsOf(port, policy) ?? []) chains.push(groupChain(names[policy], group));
    chains.push(names[policy]);
  }
  if (usesExternalChain(port)) chains.push(names.external);
  if (port.external !== "reject" && admittedSources(port) !== undefined) chains.push(names.firewall);
  return chains;
}

/** Renders a chain that `chainsOf` names. */
export function renderServiceChain(port: ServicePort, chain: string, settings: FamilySettings): readonly string[] {
  const names = namesBeside(chain);
  switch (chain) {
    case names.cluster:
      return endpointRules(port, "cluster", settings);
    case names.local:
      return endpointRules(port, "local", settings);
    case names.external:
      return externalRules(port, names, settings);
    case names.firewall:
      // KUBE-PROXY-FIREWALL drops the packets that match no rule here.
      return (admittedSources(port) ?? []).map((prefix) => `-s ${prefix} -j ${names.external}`);
  }
  for (const policy of ["cluster", "local"] as const) {
    const group = groupsOf(port, policy)?.find((one) => groupChain(names[policy], one) === chain);
    if (group !== undefined) return endpointChoice(port, group.endpoints, undefined);
  }
  throw new Error(`${port.name} has no chain ${chain}`);
}

/** The chains whose rules differ between two versions of a service port with the same frontends. */
export function changedChains(before: ServicePort, after: ServicePort, names: ServiceChainNames): readonly string[] {
  return (["cluster", "local"] as const).flatMap((policy) => {
    if (sameData(before[`${policy}Endpoints`], after[`${policy}Endpoints`])) return [];
    const was = new Map(groupsOf(before, policy)?.map((one) => [one.suffix, one]));
    const is = new Map(groupsOf(after, policy)?.map((one) => [one.suffix, one]));
    const changed = [...new Map([...was, ...is]).values()]
      .filter(({ suffix }) => !sameData(was.get(suffix)?.endpoints, is.get(suffix)?.endpoints));
    return [...changed.map((group) => groupChain(names[policy], group)), names[policy]];
  });
}

/** The rules that send packets to the endpoints for a traffic policy, or to the relay. */
function endpointRules(port: ServicePort, policy: "cluster" | "local", settings: FamilySettings): readonly string[] {
  const relayPort = port.relay?.[policy];
  if (relayPort !== undefined) return [toRelay(port, relayPort, settings)];
  const endpoints = port[`${policy}Endpoints`], groups = groupsOf(port, policy);
  return [
    ...(port.internal === policy ? internalMasquerade(port, settings) : []),
    ...groups === undefined
      ? endpointChoice(port, endpoints, port.balance?.[`${policy}Weights`])
      : groupChoice(groups, serviceChainNames(port)[policy]),
  ];
}

/**
 * Sends packets to a port of the relay on this node, which connects to an endpoint from the node's own address: nothing is
 * masqueraded. REDIRECT would also do, but drops packets from interfaces without an address, such as those that many network
 * plugins give to pods.
 */
function toRelay({ protocol }: ServicePort, relayPort: number, { relayAddress }: FamilySettings): string {
  const target = relayAddress === undefined
    ? `-j REDIRECT --to-ports ${relayPort}`
    : `-j DNAT --to-destination ${joinHostPort(relayAddress, relayPort)}`;
  return `-p ${protocol} ${target}`;
}

/**
 * Masquerades traffic to the cluster IP that is not from a pod of this node: it may come from another host, and replies must
 * return through this node (kube-proxy's rule for static routes to the service range). The cluster IP is matched only if
 * traffic for other addresses passes the same chain unmarked, since each match costs the kernel time at every commit.
 */
function internalMasquerade(port: ServicePort, settings: FamilySettings): string[] {
  const isShared = usesExternalChain(port) && port.external !== "cluster";
  const destination = isShared ? `-d ${hostPrefix(port.clusterIP)} ` : "";
  const transport = isShared ? destinationPort(port.protocol, "", port.port) : "";
  const at = (source: string, inInterface: string) =>
    `${source}${destination}${inInterface}${transport}-j ${BASE.markMasquerade}`;
  if (settings.masqueradeAll) return [at("", "")];
  const other = localMatch(settings.localTraffic, false);
  return other ? [at(other.source, other.inInterface)] : [];
}

/**
 * One rule per endpoint that picks it with the right probability and rewrites the destination; with session affinity, preceded
 * by one rule per endpoint for the clients that it served last.
 */
function endpointChoice(
  port: ServicePort,
  endpoints: readonly string[],
  weights: readonly number[] | undefined,
): string[] {
  const chance = chances(endpoints.length, weights);
  const to = (endpoint: string) => `-j DNAT --to-destination ${endpoint}`;
  const protocol = `-p ${port.protocol} `;
  if (port.affinitySeconds === 0) {
    return endpoints.flatMap((endpoint, i) => chance[i] === undefined ? [] : [protocol + chance[i] + to(endpoint)]);
  }
  const mask = port.clusterIP.includes(":") ? "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" : "255.255.255.255";
  const remembered = endpoints.map((endpoint) =>
    `--name ${affinityListName(port, endpoint)} --mask ${mask} --rsource `
  );
  return [
    ...endpoints.map((endpoint, i) =>
      `${protocol}-m recent --update --seconds ${port.affinitySeconds} --reap ${remembered[i]}${to(endpoint)}`
    ),
    ...endpoints.flatMap((endpoint, i) =>
      chance[i] === undefined ? [] : [`${protocol}${chance[i]}-m recent --set ${remembered[i]}${to(endpoint)}`]
    ),
  ];
}

/** One rule per group, which picks it with the probability of all its endpoints. */
function groupChoice(groups: readonly EndpointGroup[], chain: string): string[] {
  const chance = chances(groups.length, groups.map(({ endpoints }) => endpoints.length));
  return groups.map((group, i) => `${chance[i]}-j ${groupChain(chain, group)}`);
}

/** The match of each endpoint's rule if those before it did not match; undefined for weight 0. */
function chances(count: number, weights: readonly number[] | undefined): (string | undefined)[] {
  if (weights === undefined) return Array.from({ length: count }, (_, i) => oneOf(count - i));
  let left = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => {
    if (weight === 0) return undefined;
    const match = shareOf(weight, left);
    left -= weight;
    return match;
  });
}

/**
 * The external chain, for traffic to external addresses and node ports. With policy Local it keeps the client's address, and
 * sends traffic of this node and its pods to any endpoint, as a load balancer outside would. With policy Cluster it masquerades
 * everything, since the endpoint may be on another node.
 */
function externalRules(port: ServicePort, names: ServiceChainNames, settings: FamilySettings): string[] {
  const isRelayed = port.relay?.cluster !== undefined;
  if (port.external === "cluster") {
    return [...(isRelayed ? [] : [`-j ${BASE.markMasquerade}`]), `-j ${names.cluster}`];
  }
  const rules: string[] = [];
  if (port.clusterEndpoints.length > 0) {
    const pods = localMatch(settings.localTraffic, true);
    if (pods) rules.push(`${pods.source}${pods.inInterface}-j ${names.cluster}`);
    if (!isRelayed) rules.push(`-m addrtype --src-type LOCAL -j ${BASE.markMasquerade}`);
    rules.push(`-m addrtype --src-type LOCAL -j ${names.cluster}`);
  }
  if (port.external === "local") rules.push(`-j ${names.local}`);
  return rules;
}

/**
 * Some endpoints of a large list, in its order. Each group has a chain of its own: a change writes two of these, instead of one
 * chain with thousands of rules, and a first packet crosses some hundred rules.
 */
interface EndpointGroup {
  /** Two characters that identify it among the groups of its list: a chain's name has room for no more. */
  readonly suffix: string;
  readonly endpoints: readonly string[];
}

/** Lists up to this length are not divided. */
const LARGE = 200;
/** The size of groups, on average and within a factor of the square root of 2. */
const GROUP_SIZE = 64;
/** The most groups: 36 ** 2 would be possible. */
const MOST_GROUPS = 1024;

const known = new WeakMap<readonly string[], readonly EndpointGroup[]>();

/** The groups of a list; undefined if it is not large. An endpoint stays in its group while the length does not double. */
function endpointGroups(endpoints: readonly string[]): readonly EndpointGroup[] | undefined {
  if (endpoints.length <= LARGE) return undefined;
  let groups = known.get(endpoints);
  if (groups === undefined) known.set(endpoints, groups = divided(endpoints));
  return groups;
}

function divided(endpoints: readonly string[]): readonly EndpointGroup[] {
  const count = Math.min(2 ** Math.round(Math.log2(endpoints.length / GROUP_SIZE)), MOST_GROUPS);
  const members = Array.from({ length: count }, (): string[] => []);
  for (const endpoint of endpoints) members[hashOf(endpoint) % count]!.push(endpoint);
  return members
    .map((endpoints, i) => ({ suffix: i.toString(36).toUpperCase().padStart(2, "0"), endpoints }))
    .filter(({ endpoints }) => endpoints.length > 0);
}
