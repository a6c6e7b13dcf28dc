import type { FamilySettings, Protocol } from "../../core/model/mod.ts";
import type { Dialect } from "./table.ts";
import { fromThisNode, frontendKey, setMark } from "./statements.ts";

/**
 * The kinds of chains that services share. A frontend's entry in the map of services jumps to one of them, depending on
 * the kind of its traffic and the number of its endpoints. The chain finds the endpoint by the frontend's address and
 * port and a random number.
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
  /** The number of endpoints to pick from; 0 leaves only the shortcut. */
  readonly endpoints: number;
  /** Whether it serves node ports, whose entries have the unspecified address. */
  readonly nodePort: boolean;
}

/** The name of a shared chain: `pick-tcp-3`, `nodeport-external-udp-2`. */
export function pickChainName({ kind, protocol, endpoints, nodePort }: PickChain): string {
  return `${nodePort ? "nodeport-" : ""}${kind}-${protocol}-${endpoints}`;
}

const PICK_CHAIN = /^(nodeport-)?(pick|external|external-local|shortcut)-(tcp|udp|sctp)-(\d+)$/;

/** The purpose of the shared chain with this name; undefined if no shared chain has it. */
export function parsePickChain(name: string): PickChain | undefined {
  const match = PICK_CHAIN.exec(name);
  if (!match) return undefined;
  const [, nodePort, kind, protocol, endpoints] = match;
  return {
    nodePort: nodePort !== undefined,
    kind: kind as PickKind,
    protocol: protocol as Protocol,
    endpoints: Number(endpoints),
  };
}

/** The rules of a shared chain. */
export function pickRules(chain: PickChain, settings: FamilySettings, dialect: Dialect): string[] {
  const { kind, protocol, endpoints, nodePort } = chain;
  const address = nodePort ? `${dialect.ip} daddr & ${dialect.anyAddress}` : `${dialect.ip} daddr`;
  const map = `@${protocol}-${kind === "shortcut" ? "shortcut-" : ""}endpoints`;
  const pick = `dnat ${dialect.ip} to ${address} . ${protocol} dport . numgen random mod ${endpoints} map ${map}`;
  switch (kind) {
    case "pick":
    case "shortcut":
      return [pick];
    case "external":
      return [`${setMark(settings)} ${pick}`];
    case "external-local":
      return [
        ...fromThisNode(settings, dialect, `${frontendKey(dialect, nodePort)} vmap @shortcuts`),
        ...(endpoints > 0 ? [pick] : []),
      ];
  }
}
