import type { FamilySettings, Protocol } from "../../core/model/mod.ts";
import type { Dialect } from "./table.ts";
import { type Draw, drawText } from "./slots.ts";
import { fromThisNode, frontendKey, setMark } from "./statements.ts";

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

/** The rules of a shared chain. */
export function pickRules(chain: PickChain, settings: FamilySettings, dialect: Dialect): string[] {
  const { kind, protocol, slots, draw, nodePort } = chain;
  const address = nodePort ? `${dialect.ip} daddr & ${dialect.anyAddress}` : `${dialect.ip} daddr`;
  const map = `@${protocol}-${kind === "shortcut" ? "shortcut-" : ""}endpoints`;
  const pick = `dnat ${dialect.ip} to ${address} . ${protocol} dport . ${
    drawText(draw, slots, dialect.ip, protocol)
  } map ${map}`;
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
