import { canonicalAddress, prefixContains } from "../../platform/address.ts";

/** The addresses of this host's interfaces, as Deno.networkInterfaces lists them. */
export type ListInterfaces = () => readonly { readonly address: string }[];

/**
 * This host's addresses that lie in one of `prefixes`, where node ports and their health checks are served under
 * kube-proxy's nodePortAddresses; each once. Link-local IPv6 addresses are left out: they mean nothing without an
 * interface.
 */
export function addressesWithin(
  prefixes: readonly string[],
  listInterfaces: ListInterfaces = Deno.networkInterfaces,
): readonly string[] {
  const addresses = listInterfaces().flatMap(({ address }) => canonicalAddress(address) ?? []);
  return [...new Set(addresses)].filter((address) =>
    !prefixContains("fe80::/10", address) && prefixes.some((prefix) => prefixContains(prefix, address))
  );
}
