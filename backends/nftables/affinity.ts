import { type FamilySettings, hasExternalFrontends, isPolicyLocal, type ServicePort } from "../../core/model/mod.ts";
import { shortHash } from "../reconcile/mod.ts";
import { drawOf, drawText, type ListName, tableOf } from "./shared_chains.ts";
import { type Dialect, durationText, fromThisNode, setMark } from "./table.ts";
import { chainText, type Item } from "./transaction.ts";

/** Names of the chains of a service port with session affinity. */
interface AffinityChainNames {
  readonly cluster: string;
  readonly local: string;
  readonly external: string;
}

/** The names of the chains of a service port with session affinity. */
export function affinityChainNames({ name, protocol }: ServicePort): AffinityChainNames {
  const hash = shortHash(name + protocol);
  return { cluster: `affinity-${hash}`, local: `affinity-local-${hash}`, external: `affinity-external-${hash}` };
}

/** The start of the names of the sets with clients. */
export const CLIENT_SET = "clients-";

/** Whether a set of this name holds clients. */
export function isClientSet(name: string): name is `${typeof CLIENT_SET}${string}` {
  return name.startsWith(CLIENT_SET);
}

/**
 * The sets of remembered clients, by endpoint: one each, so that a client is forgotten with its endpoint, and reaches the same
 * endpoint through every frontend. A set cannot be changed without losing its elements, so nothing that a Service may
 * change is part of its declaration or name: rules give each element its timeout. The kernel limits a set to 65,535 clients,
 * as kube-proxy does (`DEFAULT_SET_SIZE` in table.ts).
 */
export function clientSets(port: ServicePort, { addressType }: Dialect): ReadonlyMap<string, Item> {
  const text = ["set", `type ${addressType}`, "flags dynamic,timeout"].join("\n");
  return new Map(
    [...port.clusterEndpoints, ...port.localEndpoints].map((endpoint) => [
      endpoint,
      { list: "set", key: clientSetName(port, endpoint), text },
    ]),
  );
}

function clientSetName({ name, protocol }: ServicePort, endpoint: string): `${typeof CLIENT_SET}${string}` {
  return `${CLIENT_SET}${shortHash(name + protocol + endpoint)}`;
}

/** The chains of a service port with session affinity, in an order in which each refers only to earlier ones. */
export function affinityChains(port: ServicePort, settings: FamilySettings, dialect: Dialect): Item[] {
  const names = affinityChainNames(port);
  const chains: Item[] = [];
  const add = (key: string, rules: readonly string[]) =>
    chains.push({ list: "chain", key, text: chainText(undefined, rules) });
  if (port.clusterEndpoints.length > 0) add(names.cluster, choice(port, "cluster", dialect));
  if (port.localEndpoints.length > 0) add(names.local, choice(port, "local", dialect));
  if (!hasExternalFrontends(port)) return chains;
  if (port.external === "cluster" && port.clusterEndpoints.length > 0) {
    add(names.external, [setMark(settings), `goto ${names.cluster}`]);
  } else if (isPolicyLocal(port.external)) {
    const shortcut = port.clusterEndpoints.length > 0;
    add(names.external, [
      ...(shortcut ? fromThisNode(settings, dialect, `goto ${names.cluster}`) : []),
      ...(port.localEndpoints.length > 0 ? [`goto ${names.local}`] : []),
    ]);
  }
  return chains;
}

/**
 * A rule per endpoint for its clients, then one for new clients that picks it with the right probability and remembers them.
 * `update` ends a rule if the set is full. The last rules pick an endpoint without remembering the client: without
 * them, new clients would get no endpoint until others expire.
 */
function choice(port: ServicePort, name: ListName, dialect: Dialect): string[] {
  const { ip } = dialect, endpoints = name === "cluster" ? port.clusterEndpoints : port.localEndpoints;
  const remember = (endpoint: string) =>
    `update @${clientSetName(port, endpoint)} { ${ip} saddr timeout ${durationText(port.affinitySeconds)} } `;
  const go = (endpoint: string) => `meta l4proto ${port.protocol} dnat to ${endpoint}`;
  const draws = picks(port, name, dialect);
  return [
    ...endpoints.map((endpoint) =>
      `${ip} saddr @${clientSetName(port, endpoint)} ${remember(endpoint)}${go(endpoint)}`
    ),
    ...draws.map(({ endpoint, match }) => match + remember(endpoint) + go(endpoint)),
    ...draws.map(({ endpoint, match }) => match + go(endpoint)),
  ];
}

/** A rule for new clients: its endpoint, and what it matches, with a trailing space; empty if it matches all. */
interface Pick {
  readonly endpoint: string;
  readonly match: string;
}

/**
 * The rules for new clients, in order. With `random` and `turn`, each rule draws a new number, and the last rule matches every
 * client that no other did. With a hash, a client has the same number in every rule, so each rule matches its own numbers.
 */
function picks(port: ServicePort, name: ListName, { ip }: Dialect): Pick[] {
  const endpoints = name === "cluster" ? port.clusterEndpoints : port.localEndpoints;
  const table = tableOf(port, name), draw = drawOf(port);
  if (table === undefined) {
    return endpoints.map((endpoint, i) => {
      const left = endpoints.length - i;
      return { endpoint, match: left === 1 ? "" : `${drawText(draw, left, ip, port.protocol)} 0 ` };
    });
  }
  const slots = endpoints.map((): number[] => []);
  table.forEach((index, slot) => slots[index]!.push(slot));
  const used = endpoints.flatMap((endpoint, i) => slots[i]!.length > 0 ? [{ endpoint, own: slots[i]! }] : []);
  const isHash = draw === "flow" || draw === "client";
  let left = table.length;
  return used.map(({ endpoint, own }, i) => {
    const of = left;
    left -= own.length;
    if (used.length === 1 || !isHash && i === used.length - 1) return { endpoint, match: "" };
    if (!isHash) return { endpoint, match: `${drawText(draw, of, ip, port.protocol)} < ${own.length} ` };
    const match = own.length === 1 ? own[0] : `{ ${own.join(", ")} }`;
    return { endpoint, match: `${drawText(draw, table.length, ip, port.protocol)} ${match} ` };
  });
}
