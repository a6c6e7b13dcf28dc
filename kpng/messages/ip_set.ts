import { familyOf } from "../../platform/mod.ts";
import type { IPSetMessage } from "./messages.ts";

/** Addresses by family; undefined for none. */
export function ipSet(addresses: readonly string[]): IPSetMessage | undefined {
  if (addresses.length === 0) return undefined;
  return {
    v4: addresses.filter((address) => familyOf(address) === "IPv4"),
    v6: addresses.filter((address) => familyOf(address) === "IPv6"),
  };
}

/** All addresses of a set. */
export function listIps({ v4 = [], v6 = [] }: IPSetMessage = {}): readonly string[] {
  return [...v4, ...v6];
}
