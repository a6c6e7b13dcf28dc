/** The pieces of rules, each spelled as nft prints it, so that a chain in the kernel can be compared as text. */
import type { FamilySettings, LocalTraffic } from "../../core/model/mod.ts";
import type { Dialect } from "./table.ts";

/** The key of a frontend in sets and maps; a node port has that of the unspecified address. */
export function frontendKey({ ip, anyAddress }: Dialect, nodePort: boolean): string {
  return `${ip} daddr ${nodePort ? `& ${anyAddress} ` : ""}. meta l4proto . th dport`;
}

const hex = (value: number) => `0x${(value >>> 0).toString(16).padStart(8, "0")}`;

/** Asks for masquerading. */
export function setMark({ masqueradeMark }: FamilySettings): string {
  return `meta mark set meta mark | ${hex(masqueradeMark)}`;
}

/** Takes the mark off, so that the packet is not masqueraded again if it comes by another time (a tunnel). */
export function clearMark({ masqueradeMark }: FamilySettings): string {
  return `meta mark set meta mark & ${hex(~masqueradeMark)}`;
}

/** Matches packets for which nobody asked for masquerading. nft prints a mask of the first bit alone as a prefix. */
export function unmarked({ masqueradeMark }: FamilySettings): string {
  if (masqueradeMark === 2 ** 31) return "meta mark 0x00000000/1";
  return `meta mark & ${hex(masqueradeMark)} == 0x00000000`;
}

/** A prefix as nft prints it: a single address without its length. */
export function prefixText(prefix: string): string {
  return prefix.replace(prefix.includes(":") ? /\/128$/ : /\/32$/, "");
}

/**
 * What matches traffic that this node's pods send (`local`), or any other (`!local`): a statement with a space behind
 * it, empty where all traffic is such, undefined where none is or it cannot be told.
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
 * The rules that catch traffic of this node's pods and of the node itself, whose address must not be kept, since it
 * may be one that the endpoint cannot answer to through this node (kube-proxy's short cuts of policy Local).
 */
export function fromThisNode(settings: FamilySettings, dialect: Dialect, then: string): string[] {
  const pods = localMatch(settings.localTraffic, true, dialect);
  return [
    ...(pods === undefined ? [] : [`${pods}${then}`]),
    `fib saddr type local ${setMark(settings)} ${then}`,
  ];
}
