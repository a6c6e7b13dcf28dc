/** Parts of rules, spelled as nft prints them, so that chains can be compared as text. */
import type { FamilySettings, LocalTraffic } from "../../core/model/mod.ts";
import type { Dialect } from "./table.ts";

/** The key of a frontend in sets and maps; a node port has that of the unspecified address. */
export function frontendKey({ ip, anyAddress }: Dialect, nodePort: boolean): string {
  return `${ip} daddr ${nodePort ? `& ${anyAddress} ` : ""}. meta l4proto . th dport`;
}

const hex = (value: number) => `0x${(value >>> 0).toString(16).padStart(8, "0")}`;

/** Sets the mark for masquerading. */
export function setMark({ masqueradeMark }: FamilySettings): string {
  return `meta mark set meta mark | ${hex(masqueradeMark)}`;
}

/** Clears the mark, so that a packet that passes again (a tunnel) is not masqueraded twice. */
export function clearMark({ masqueradeMark }: FamilySettings): string {
  return `meta mark set meta mark & ${hex(~masqueradeMark)}`;
}

/** Matches packets without the mark. nft prints a mask of the first bit alone as a prefix. */
export function unmarked({ masqueradeMark }: FamilySettings): string {
  if (masqueradeMark === 2 ** 31) return "meta mark 0x00000000/1";
  return `meta mark & ${hex(masqueradeMark)} == 0x00000000`;
}

/** A prefix as nft prints it: a single address without its length. */
export function prefixText(prefix: string): string {
  return prefix.replace(prefix.includes(":") ? /\/128$/ : /\/32$/, "");
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
  return [
    ...(pods === undefined ? [] : [`${pods}${then}`]),
    `fib saddr type local ${setMark(settings)} ${then}`,
  ];
}
