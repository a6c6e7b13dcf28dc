import { type FamilySettings, hasExternalFrontends, isPolicyLocal, type ServicePort } from "../../core/model/mod.ts";
import { shortHash } from "../reconcile/mod.ts";
import { fromThisNode, setMark } from "./statements.ts";
import type { Dialect } from "./table.ts";

/** A chain that belongs to one service port. */
export interface OwnChain {
  readonly name: string;
  readonly rules: readonly string[];
}

/** The set with the clients of one endpoint of one service port. */
export interface ClientSet {
  readonly name: string;
  /** The lines between its braces. */
  readonly lines: readonly string[];
}

/** Names of the chains of a service port with session affinity. */
export interface AffinityChainNames {
  readonly cluster: string;
  readonly local: string;
  readonly external: string;
}

/** The names of the chains of a service port with session affinity. */
export function affinityChainNames({ name, protocol }: ServicePort): AffinityChainNames {
  const hash = shortHash(name + protocol);
  return { cluster: `affinity-${hash}`, local: `affinity-local-${hash}`, external: `affinity-external-${hash}` };
}

/** Whether a set of this name holds clients. */
export function isClientSet(name: string): boolean {
  return name.startsWith("clients-");
}

/** The maximum number of clients of an endpoint that the kernel remembers, as in kube-proxy. */
const CLIENTS_PER_ENDPOINT = 65_535;

/**
 * The sets of remembered clients: one per endpoint, so that a client is forgotten with its endpoint, and reaches the same
 * endpoint through every frontend. The timeout of a set cannot be changed, so it is part of the name.
 */
export function clientSets(port: ServicePort, { addressType }: Dialect): ClientSet[] {
  const endpoints = new Set([...port.clusterEndpoints, ...port.localEndpoints]);
  return [...endpoints].map((endpoint) => ({
    name: clientSetName(port, endpoint),
    lines: [
      `type ${addressType}`,
      `size ${CLIENTS_PER_ENDPOINT}`,
      "flags dynamic,timeout",
      `timeout ${port.affinitySeconds}s`,
    ],
  }));
}

function clientSetName({ name, protocol, affinitySeconds }: ServicePort, endpoint: string): string {
  return `clients-${shortHash(`${name}${protocol}${endpoint}|${affinitySeconds}`)}`;
}

/** The chains of a service port with session affinity, in an order in which each refers only to earlier ones. */
export function affinityChains(port: ServicePort, settings: FamilySettings, dialect: Dialect): OwnChain[] {
  const names = affinityChainNames(port);
  const chains: OwnChain[] = [];
  if (port.clusterEndpoints.length > 0) {
    chains.push({ name: names.cluster, rules: choice(port, port.clusterEndpoints, dialect) });
  }
  if (port.localEndpoints.length > 0) {
    chains.push({ name: names.local, rules: choice(port, port.localEndpoints, dialect) });
  }
  if (!hasExternalFrontends(port)) return chains;
  if (port.external === "cluster" && port.clusterEndpoints.length > 0) {
    chains.push({ name: names.external, rules: [setMark(settings), `goto ${names.cluster}`] });
  } else if (isPolicyLocal(port.external)) {
    const shortcut = port.clusterEndpoints.length > 0;
    chains.push({
      name: names.external,
      rules: [
        ...(shortcut ? fromThisNode(settings, dialect, `goto ${names.cluster}`) : []),
        ...(port.localEndpoints.length > 0 ? [`goto ${names.local}`] : []),
      ],
    });
  }
  return chains;
}

/** A rule per endpoint for its clients, and one for new clients that picks it with the right probability. */
function choice(port: ServicePort, endpoints: readonly string[], { ip }: Dialect): string[] {
  const protocol = `meta l4proto ${port.protocol}`;
  const go = (endpoint: string) =>
    `update @${clientSetName(port, endpoint)} { ${ip} saddr } ${protocol} dnat to ${endpoint}`;
  return [
    ...endpoints.map((endpoint) => `${ip} saddr @${clientSetName(port, endpoint)} ${go(endpoint)}`),
    ...endpoints.map((endpoint, i) => {
      const left = endpoints.length - i;
      return left === 1 ? go(endpoint) : `numgen random mod ${left} 0 ${go(endpoint)}`;
    }),
  ];
}
