import { canonicalAddress, prefixContains } from "../platform/mod.ts";
import { DUMMY_INTERFACE } from "../core/model/mod.ts";

/** The addresses of this host's interfaces, as Deno.networkInterfaces lists them. */
export type ListInterfaces = () => readonly { readonly name: string; readonly address: string }[];

/** This host's own addresses, canonical, each once: those that IPVS mode has given it are services'. */
export function ownAddresses(listInterfaces: ListInterfaces = Deno.networkInterfaces): readonly string[] {
  const own = listInterfaces().filter(({ name }) => name !== DUMMY_INTERFACE);
  return [...new Set(own.flatMap(({ address }) => canonicalAddress(address) ?? []))];
}

/**
 * This host's addresses that lie in one of `prefixes`, where node ports and their health checks are served under
 * kube-proxy's nodePortAddresses; each once. Link-local IPv6 addresses are left out: they mean nothing without an
 * interface.
 */
export function addressesWithin(
  prefixes: readonly string[],
  listInterfaces?: ListInterfaces,
): readonly string[] {
  return ownAddresses(listInterfaces).filter((address) =>
    !prefixContains("fe80::/10", address) && prefixes.some((prefix) => prefixContains(prefix, address))
  );
}
