import {
  balancedList,
  balanceTable,
  type EndpointIndex,
  type FamilySettings,
  type Protocol,
  type ServicePort,
} from "../../core/model/mod.ts";
import { shortHash } from "../reconcile/mod.ts";
import { NODE_PORT_REFUSALS, nodePortRefusals } from "./frame.ts";
import { isSourceChain, sourceRules } from "./sources.ts";
import { type Dialect, endpointElement, fromThisNode, frontendKey, type OutsideMapName, setMark } from "./table.ts";
import { chainText } from "./transaction.ts";

/**
 * How a chain draws the number of a slot:
 * - `random`: a random number;
 * - `flow`, `client`: a hash of the client's address and port, or of its address;
 * - `turn`: a counter. It belongs to the rule, so each service port has a chain of its own.
 */
type Draw = "random" | "flow" | "client" | "turn";

/** A list of endpoints as a packet sees it: it draws the number of a slot, which has an endpoint. */
export interface SlotList {
  readonly draw: Draw;
  /** The endpoint of each slot, as a value of the map of endpoints. */
  readonly slots: readonly string[];
}

/** The two lists of endpoints of a service port. */
export type ListName = "cluster" | "local";

/** The slots of a list of endpoints. */
export function slotList(port: ServicePort, name: ListName): SlotList {
  const endpoints = name === "cluster" ? port.clusterEndpoints : port.localEndpoints;
  const values = endpoints.map(endpointElement);
  const table = tableOf(port, name);
  return { draw: drawOf(port), slots: table === undefined ? values : table.map((index) => values[index]!) };
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

/** The owner of a service port's own counters, for the names of its chains. */
export function counterOwner({ name, protocol }: ServicePort): string {
  return shortHash(name + protocol);
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
export interface PickChain {
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

/** The purpose of the shared chain with this name; undefined if no shared chain has it. */
export function parsePickChain(name: string): PickChain | undefined {
  const match = PICK_CHAIN.exec(name);
  if (!match) return undefined;
  const [, nodePort, kind, protocol, slots, hashed, counted, owner] = match;
  return {
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
 * @param ownMap the map with its slots, by their numbers; by default, the frontend of a packet selects them
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
  // nft needs to know the protocol, and prints no match for one that the key tells.
  const match = draw === "flow" ? "" : `meta l4proto ${protocol} `;
  const pick = ownMap === undefined
    ? `dnat ${ip} to ${frontend} . ${drawn} map @${protocol}-${kind === "shortcut" ? "shortcut-" : ""}endpoints`
    : `${match}dnat ${ip} to ${drawn} map @${ownMap}`;
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
  return `outside-${kind === "shortcut" ? "shortcut-" : ""}endpoints-${counterOwner(port)}`;
}

/** The declaration of such a map. */
export function outsideMap(protocol: Protocol, { ip }: Dialect): string {
  return ["map", `typeof numgen random mod 65536 : ${ip} daddr . ${protocol} dport`].join("\n");
}

/** Whether service ports share the chain with this name. */
export function isSharedChain(name: string): boolean {
  return isSourceChain(name) || name === NODE_PORT_REFUSALS || parsePickChain(name) !== undefined;
}

/** The text of a chain that service ports share, which follows from its name; undefined if it is not shared. */
export function sharedChainText(name: string, settings: FamilySettings, dialect: Dialect): string | undefined {
  if (isSourceChain(name)) return chainText(undefined, sourceRules(name, settings, dialect));
  if (name === NODE_PORT_REFUSALS) {
    const { hook, rules } = nodePortRefusals(settings, dialect);
    return chainText(hook, rules);
  }
  const chain = parsePickChain(name);
  return chain && chainText(undefined, pickRules(chain, settings, dialect));
}
