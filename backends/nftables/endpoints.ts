/**
 * The slots of endpoints and the chains that pick one: a rule draws the number of a slot, and a map has its endpoint by the
 * frontend and that number.
 */
import {
  balancedList,
  balanceTable,
  type EndpointIndex,
  type FamilySettings,
  frontendsOf,
  isPolicyLocal,
  type Protocol,
  type ServicePort,
} from "../../core/model/mod.ts";
import { type NumberedPort, numberingIn, numberingOf } from "./affinity_names.ts";
import type { OutsideMapName } from "./sets.ts";
import {
  type Dialect,
  endpointElement,
  fromThisNode,
  frontendKey,
  type ListName,
  servicePortHash,
  setMark,
} from "./table.ts";
import type { Listing } from "./transaction.ts";

/**
 * How a chain draws the number of a slot:
 * - `random`: a random number;
 * - `flow`, `client`: a hash of the client's address and port, or of its address;
 * - `turn`: a counter. It belongs to the rule, so each service port has a chain of its own.
 */
export type Draw = "random" | "flow" | "client" | "turn";

/** A list of endpoints as a packet sees it: it draws the number of a slot, which has an endpoint. */
export interface SlotList {
  readonly draw: Draw;
  /** The endpoint of each slot. */
  readonly slots: readonly string[];
  /** The number of each slot in the map; its index if undefined. */
  readonly numbers?: readonly number[];
}

/** The slots of a list of endpoints. */
export function slotList(port: ServicePort, name: ListName): SlotList {
  const endpoints = name === "cluster" ? port.clusterEndpoints : port.localEndpoints;
  const table = tableOf(port, name);
  return { draw: drawOf(port), slots: table === undefined ? endpoints : table.map((index) => endpoints[index]!) };
}

/** The table of a list of endpoints; undefined if each endpoint has one slot. */
export function tableOf(port: ServicePort, name: ListName): readonly EndpointIndex[] | undefined {
  const { balance } = port, list = balancedList(port, name);
  if (balance === undefined || list.endpoints.length === 0) return undefined;
  return balanceTable(balance, list);
}

/** How the chains of a service port draw slots. */
export function drawOf({ balance }: ServicePort): Draw {
  if (balance?.algorithm === "consistent-hash") return balance.hash ?? "flow";
  return balance?.algorithm === "round-robin" ? "turn" : "random";
}

/**
 * The seed of the hash, the same on all nodes and in all versions: otherwise they would send a flow to different endpoints.
 * Only the address and the port of the client are hashed. The slots are those of one frontend, so the whole 5-tuple decides;
 * and nft 1.0.6 has too few registers for two IPv6 addresses beside the key of the map.
 */
const SEED = "0x51c1ce";

/** The expression that draws the number of a slot, as nft prints it. */
export function drawText(draw: Draw, slots: number, ip: "ip" | "ip6", transport: string): string {
  switch (draw) {
    case "random":
      return `numgen random mod ${slots}`;
    case "turn":
      return `numgen inc mod ${slots}`;
    case "client":
      return `jhash ${ip} saddr mod ${slots} seed ${SEED}`;
    case "flow":
      return `jhash ${ip} saddr . ${transport} sport mod ${slots} seed ${SEED}`;
  }
}

/**
 * The kinds of chains that services share. A frontend's entry in the map of services jumps to one of them, depending on
 * the kind of its traffic, the number of its slots (one for each endpoint, unless it is balanced by a table), and how one is
 * drawn. The chain finds the endpoint by the frontend's address and port and the number of the slot.
 */
export type PickKind =
  /** Traffic to a cluster IP, whose mark is already set. */
  | "pick"
  /** External traffic of policy Cluster, which is masqueraded, since the endpoint may be on another node. */
  | "external"
  /** External traffic of policy Local; this node's own traffic takes the shortcut. */
  | "external-local"
  /** The shortcut to any endpoint, as if the traffic had left the node for a load balancer and returned. */
  | "shortcut";

/** The purpose of a shared chain. */
interface PickChain {
  readonly kind: PickKind;
  readonly protocol: Protocol;
  /** The number of slots to draw from; 0 leaves only the shortcut. */
  readonly slots: number;
  readonly draw: Draw;
  /** The service port whose chain it is, if it has a counter; undefined for a chain that service ports share. */
  readonly owner: string | undefined;
  /** Whether it serves node ports, whose entries have the unspecified address. */
  readonly nodePort: boolean;
}

/** The name of a shared chain: `pick-tcp-3`, `nodeport-external-udp-2`, `pick-tcp-12-flow`, `pick-tcp-3-turn-OWNER`. */
export function pickChainName({ kind, protocol, slots, draw, owner, nodePort }: PickChain): string {
  const by = draw === "random" ? "" : owner === undefined ? `-${draw}` : `-${draw}-${owner}`;
  return `${nodePort ? "nodeport-" : ""}${kind}-${protocol}-${slots}${by}`;
}

const PICK_CHAIN =
  /^(nodeport-)?(pick|external|external-local|shortcut)-(tcp|udp|sctp)-(\d+)(?:-(flow|client)|-(turn)-([A-Z2-7]+))?$/;

/** The purpose of the chain with this name; undefined if it picks no endpoint of several service ports. */
export function parsePickChain(name: string): PickChain | undefined {
  const [, nodePort, kind, protocol, slots, hashed, counted, owner] = PICK_CHAIN.exec(name) ?? [];
  return kind === undefined ? undefined : {
    nodePort: nodePort !== undefined,
    kind: kind as PickKind,
    protocol: protocol as Protocol,
    slots: Number(slots),
    draw: (hashed ?? counted ?? "random") as Draw,
    owner,
  };
}

/**
 * The rules of a chain that picks an endpoint.
 * @param ownMap the map with its slots, by port and number; by default, that of all service ports
 */
export function pickRules(
  chain: PickChain,
  settings: FamilySettings,
  dialect: Dialect,
  ownMap?: OutsideMapName,
): string[] {
  const { kind, protocol, slots, draw, nodePort } = chain;
  const { ip, anyAddress } = dialect, drawn = drawText(draw, slots, ip, protocol);
  const frontend = `${ip} daddr ${nodePort ? `& ${anyAddress} ` : ""}. ${protocol} dport`;
  const pick = ownMap === undefined
    ? `dnat ${ip} to ${frontend} . ${drawn} map @${protocol}-${kind === "shortcut" ? "shortcut-" : ""}endpoints`
    : `dnat ${ip} to ${protocol} dport . ${drawn} map @${ownMap}`;
  switch (kind) {
    case "pick":
    case "shortcut":
      return [pick];
    case "external":
      return [`${setMark(settings)} ${pick}`];
    case "external-local":
      return [
        ...fromThisNode(settings, dialect, `${frontendKey(dialect, nodePort)} vmap @shortcuts`),
        ...(slots > 0 ? [pick] : []),
      ];
  }
}

/**
 * The name of the map with the slots that all external frontends of a service port share. An address that stands for all of them
 * would be a constant in the key, which `nft list` prints for IPv6 as `nft -f` does not read it.
 */
export function outsideMapName(port: ServicePort, kind: PickKind): OutsideMapName {
  return `outside-${kind === "shortcut" ? "shortcut-" : ""}endpoints-${servicePortHash(port)}`;
}

/** The endpoints of both lists of a service port, by slot; undefined where the endpoint of a slot is unknown. */
export interface SlotOrder extends Pick<NumberedPort, "numbering"> {
  readonly clusterEndpoints: readonly (string | undefined)[];
  readonly localEndpoints: readonly (string | undefined)[];
}

/**
 * A service port with its endpoints in an order in which each keeps the slot that it has in `held`: others take the slots that
 * are free. So one endpoint among 5,000 is one element of each frontend, and not all behind it in the order of their
 * addresses. The tables of a balanced service port depend on the order. With session affinity, endpoints also keep their numbers.
 */
export function keepSlots(port: NumberedPort, held: SlotOrder | undefined): NumberedPort {
  const ordered = keepOrder(port, held);
  return port.affinitySeconds > 0 ? { ...ordered, numbering: numberingOf(port, held?.numbering) } : ordered;
}

function keepOrder(port: NumberedPort, held: SlotOrder | undefined): NumberedPort {
  if (held === undefined || port.balance !== undefined) return port;
  const clusterEndpoints = ordered(port.clusterEndpoints, held.clusterEndpoints);
  const localEndpoints = ordered(port.localEndpoints, held.localEndpoints);
  const isSame = clusterEndpoints === port.clusterEndpoints && localEndpoints === port.localEndpoints;
  return isSame ? port : { ...port, clusterEndpoints, localEndpoints };
}

function ordered(endpoints: readonly string[], held: readonly (string | undefined)[]): readonly string[] {
  if (endpoints.every((endpoint, i) => i >= held.length || held[i] === endpoint)) return endpoints;
  const left = new Set(endpoints);
  const slots = endpoints.map((_, i) => held[i] !== undefined && left.delete(held[i]) ? held[i] : undefined);
  const others = left.values();
  return slots.map((endpoint) => endpoint ?? others.next().value!);
}

/** The slots that the endpoints of a service port have in a listing; `isFirst`: whether the process has read none before. */
export function slotsIn(listing: Listing, port: NumberedPort, { anyAddress }: Dialect, isFirst: boolean): SlotOrder {
  if (port.affinitySeconds > 0) {
    return { clusterEndpoints: [], localEndpoints: [], numbering: numberingIn(listing, port, isFirst) };
  }
  const { protocol } = port, frontends = frontendsOf(port);
  const inSet = (
    set: "endpoints" | "shortcut-endpoints",
    frontend: typeof frontends[number] | undefined,
    endpoints: readonly string[],
  ) => {
    const elements = listing.get(`${protocol}-${set}`);
    if (frontend === undefined || elements === undefined) return [];
    const byElement = new Map(endpoints.map((endpoint) => [endpointElement(endpoint), endpoint]));
    const address = frontend.kind === "nodePort" ? anyAddress : frontend.address;
    return endpoints.map((_, slot) => byElement.get(elements.get(`${address} . ${frontend.port} . ${slot}`) ?? ""));
  };
  const ofCluster = frontends.find(({ verdict }) => verdict === "cluster");
  const shortcut = frontends.find(({ verdict, ownVerdict }) => isPolicyLocal(verdict) && ownVerdict === "cluster");
  return {
    clusterEndpoints: ofCluster
      ? inSet("endpoints", ofCluster, port.clusterEndpoints)
      : inSet("shortcut-endpoints", shortcut, port.clusterEndpoints),
    localEndpoints: inSet("endpoints", frontends.find(({ verdict }) => verdict === "local"), port.localEndpoints),
  };
}
