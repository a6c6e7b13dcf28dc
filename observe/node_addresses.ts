import { DUMMY_INTERFACE } from "../core/model/mod.ts";
import { canonicalAddress, prefixContains } from "../platform/mod.ts";

/** Lists the addresses of this host's interfaces, as Deno.networkInterfaces does. */
type ListInterfaces = () => readonly { readonly name: string; readonly address: string }[];

/** This host's own addresses, canonical, without those that IPVS mode binds to it. */
export function ownAddresses(listInterfaces: ListInterfaces = Deno.networkInterfaces): readonly string[] {
  const own = listInterfaces().filter(({ name }) => name !== DUMMY_INTERFACE);
  return [...new Set(own.flatMap(({ address }) => canonicalAddress(address) ?? []))];
}

/**
 * This host's addresses in one of `prefixes`, where node ports and their health checks are served under kube-proxy's
 * nodePortAddresses; without duplicates. Excludes link-local IPv6 addresses, which are ambiguous without an interface. Returns
 * undefined if the prefixes are all addresses of both families, which need no list.
 */
export function addressesWithin(
  prefixes: readonly string[],
  listInterfaces?: ListInterfaces,
): readonly string[] | undefined {
  if (["0.0.0.0/0", "::/0"].every((prefix) => prefixes.includes(prefix))) return undefined;
  return ownAddresses(listInterfaces).filter((address) =>
    !prefixContains("fe80::/10", address) && prefixes.some((prefix) => prefixContains(prefix, address))
  );
}
