import type { ProxyMode } from "../model/mod.ts";
import { type Kind, KINDS } from "./cluster_object.ts";

/**
 * The kinds of object that a mode needs to know. Only nftables mode does anything about ServiceCIDRs, so that others need
 * no right to read them (kube-proxy watches them in every mode, and its other modes ignore them).
 */
export function kindsOf(mode: ProxyMode): readonly Kind[] {
  return mode === "nftables" ? KINDS : KINDS.filter((kind) => kind !== "ServiceCIDR");
}
