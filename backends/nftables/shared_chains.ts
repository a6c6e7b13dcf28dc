import type { FamilySettings, Protocol, ServicePort } from "../../core/model/mod.ts";
import { affinityRules } from "./affinity.ts";
import { NODE_PORT_REFUSALS, nodePortRefusals } from "./frame.ts";
import { sourceRules } from "./sources.ts";
import { declarationOf, type OutsideMapName, setText } from "./sets.ts";
import { type Draw, drawText } from "./slots.ts";
import { type Dialect, fromThisNode, frontendKey, servicePortHash, setMark } from "./table.ts";
import { chainText, type Item, parseItemId } from "./transaction.ts";

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
function parsePickChain(name: string): PickChain | undefined {
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

/** The text of a chain that service ports share, which follows from its name; undefined if it is not shared. */
export function sharedChainText(name: string, settings: FamilySettings, dialect: Dialect): string | undefined {
  if (name === NODE_PORT_REFUSALS) return nodePortRefusals(settings, dialect);
  const chain = parsePickChain(name);
  const rules = chain
    ? pickRules(chain, settings, dialect)
    : sourceRules(name, settings, dialect) ?? affinityRules(name, dialect);
  return rules && chainText(undefined, rules);
}

/** An element, set or chain that service ports share, by its id. */
export function sharedItem(id: string, settings: FamilySettings, dialect: Dialect): Item {
  const { list, key } = parseItemId(id);
  switch (list) {
    case "chain":
      return { list, key, text: sharedChainText(key, settings, dialect)! };
    case "set":
      return { list, key, text: setText(declarationOf(key), dialect) };
    default:
      return { list, key, text: "" };
  }
}
