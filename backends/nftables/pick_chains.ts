import type { FamilySettings, Protocol } from "../../core/model/mod.ts";
import type { Dialect } from "./table.ts";
import { fromThisNode, frontendKey, setMark } from "./statements.ts";

/**
 * The chains that services share: a frontend's entry in the map of services leads to one of them by what is to be done
 * with its traffic and by how many endpoints it has. The endpoint is then found by the frontend's own address and port
 * and a random number.
 */
export type PickKind =
  /** Traffic to a cluster IP (masqueraded or not before it comes here). */
  | "pick"
  /** External traffic of policy Cluster: it is masqueraded, since the endpoint may be elsewhere. */
  | "external"
  /** External traffic of policy Local, for which this node's own traffic takes the short cut. */
  | "external-local"
  /** That short cut: to any endpoint, as if the traffic had gone out to a load balancer and come back. */
  | "shortcut";

/** What one of the shared chains is for. */
export interface PickChain {
  readonly kind: PickKind;
  readonly protocol: Protocol;
  /** How many endpoints there are to pick from; with 0 there is the short cut alone. */
  readonly endpoints: number;
  /** Whether it serves node ports, whose entries have no address of their own. */
  readonly nodePort: boolean;
}

/** The name of a shared chain: `pick-tcp-3`, `nodeport-external-udp-2`. */
export function pickChainName({ kind, protocol, endpoints, nodePort }: PickChain): string {
  return `${nodePort ? "nodeport-" : ""}${kind}-${protocol}-${endpoints}`;
}

const PICK_CHAIN = /^(nodeport-)?(pick|external|external-local|shortcut)-(tcp|udp|sctp)-(\d+)$/;

/** What the shared chain of a name is for; undefined where the name is of no shared chain. */
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
