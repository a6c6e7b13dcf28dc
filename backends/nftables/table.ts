import type { Family, FamilySettings, LocalTraffic, ServicePort } from "../../core/model/mod.ts";
import { prefixText, splitHostPort } from "../../platform/mod.ts";
import { shortHash } from "../reconcile/mod.ts";

/** The name of Sluice's table in each family. */
export const TABLE = "sluice";

/** The name of the table that counts open connections, while service ports ask for that (see open_connections.ts). */
export const CONNECTIONS_TABLE = "sluice-connections";
/** The table that resets connections to dead endpoints, in other modes, too (see resets.ts). */
export const RESETS_TABLE = "sluice-resets";

/** The name of the tables of kube-proxy's nftables mode. */
export const KUBE_PROXY_TABLE = "kube-proxy";

/** The keywords of nft for a family. */
export interface Dialect {
  /** The name of the family, of its header, and of its addresses in statements. */
  readonly ip: "ip" | "ip6";
  /** The address that stands for any address of this node in the keys of node ports. */
  readonly anyAddress: string;
  /** The prefix that does not serve node ports: the kernel does not route from there to pods. */
  readonly loopback: string;
}

/** The keywords of nft for each family. */
export const DIALECTS: Readonly<Record<Family, Dialect>> = {
  IPv4: { ip: "ip", anyAddress: "0.0.0.0", loopback: "127.0.0.0/8" },
  IPv6: { ip: "ip6", anyAddress: "::", loopback: "::1" },
};

/** The two lists of endpoints of a service port. */
export type ListName = "cluster" | "local";

const hashes = new WeakMap<ServicePort, string>();

/** The hash of a service port in the names of its own chains and maps; computed once, since each frontend needs it. */
export function servicePortHash(port: ServicePort): string {
  let hash = hashes.get(port);
  if (hash === undefined) hashes.set(port, hash = shortHash(port.name + port.protocol));
  return hash;
}

/** A chain that exists even without services. */
export interface BaseChain {
  readonly name: string;
  /** The hook at which the kernel calls it, as nft prints it; undefined for a chain that is only jumped to. */
  readonly hook: string | undefined;
  readonly rules: readonly string[];
}

/** A chain of a filter hook at the priority of filters, with the name of the hook. */
export function filterChain(hook: "forward" | "input" | "output", rules: readonly string[]): BaseChain {
  return { name: hook, hook: `type filter hook ${hook} priority filter; policy accept;`, rules };
}

// Parts of rules, spelled as nft prints them, so that chains can be compared as text.

/** The key of a frontend in sets and maps; a node port has that of the unspecified address. */
export function frontendKey({ ip, anyAddress }: Dialect, nodePort: boolean): string {
  return `${ip} daddr ${nodePort ? `& ${anyAddress} ` : ""}. meta l4proto . th dport`;
}

/** A number of 32 bits as nft prints a mark. */
export function hexText(value: number): string {
  return `0x${(value >>> 0).toString(16).padStart(8, "0")}`;
}

/** Sets the mark for masquerading. */
export function setMark({ masqueradeMark }: FamilySettings): string {
  return `meta mark set meta mark | ${hexText(masqueradeMark)}`;
}

/** Clears the mark, so that a packet that passes again (a tunnel) is not masqueraded twice. */
export function clearMark({ masqueradeMark }: FamilySettings): string {
  return `meta mark set meta mark & ${hexText(~masqueradeMark)}`;
}

/** Matches packets without the mark. */
export function unmarked({ masqueradeMark }: FamilySettings): string {
  return `meta mark & ${hexText(masqueradeMark)} == 0x00000000`;
}

/**
 * A match for traffic of this node's pods (`local`) or for any other traffic (`!local`), with a trailing space; empty if it
 * matches everything, undefined if it matches nothing or local traffic cannot be detected.
 */
export function localMatch(traffic: LocalTraffic, local: boolean, { ip }: Dialect): string | undefined {
  const not = local ? "" : "!= ";
  switch (traffic.by) {
    case "none":
      return undefined;
    case "source-prefix":
      if (traffic.prefix.endsWith("/0")) return local ? "" : undefined;
      return `${ip} saddr ${not}${prefixText(traffic.prefix)} `;
    case "bridge":
      return `iifname ${not}"${traffic.interface}" `;
    case "interface-prefix":
      return `iifname ${not}"${traffic.prefix}*" `;
  }
}

/**
 * The rules for traffic of this node's pods and of the node itself (kube-proxy's shortcuts of policy Local). Traffic of the
 * node is masqueraded: its source may be an address to which the endpoint cannot reply through this node.
 */
export function fromThisNode(settings: FamilySettings, dialect: Dialect, then: string): string[] {
  const pods = localMatch(settings.localTraffic, true, dialect);
  return [...(pods === undefined ? [] : [`${pods}${then}`]), `fib saddr type local ${setMark(settings)} ${then}`];
}

/** An endpoint as a key or value of a set: `10.0.0.1 . 80`. */
export function endpointElement(endpoint: string): string {
  const { address, port } = splitHostPort(endpoint);
  return `${address} . ${port}`;
}

/** The units of durations in nft, in seconds. */
const UNITS = [["d", 86_400], ["h", 3_600], ["m", 60], ["s", 1]] as const;

/** A duration in whole seconds as nft prints it: `1d2h3m4s`. */
export function durationText(seconds: number): string {
  let text = "", left = seconds;
  for (const [unit, size] of UNITS) {
    if (left >= size) text += `${Math.floor(left / size)}${unit}`;
    left %= size;
  }
  return text;
}
