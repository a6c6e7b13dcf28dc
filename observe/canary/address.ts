import { addressBytes, addressOfBytes, type Family, familyOf, isLoopback, prefixContains } from "../../platform/mod.ts";

/** The addresses of a range that are tried at most. */
const MOST_TRIED = 64;

/**
 * The first address of a range that none of these interfaces has, without the network's own address: `169.254.238.1` of
 * `169.254.238.0/24`. Undefined if all are taken.
 */
export function firstFree(range: string, taken: readonly string[]): string | undefined {
  const [network = ""] = range.split("/");
  for (let step = 1; step <= MOST_TRIED; step++) {
    const address = addressAfter(network, step);
    if (!prefixContains(range, address)) return undefined;
    if (!taken.includes(address)) return address;
  }
  return undefined;
}

function addressAfter(address: string, step: number): string {
  const bytes = addressBytes(address);
  let carry = step;
  for (let i = bytes.length - 1; i >= 0 && carry > 0; i--) {
    carry += bytes[i]!;
    bytes[i] = carry & 0xff;
    carry >>= 8;
  }
  return addressOfBytes(bytes);
}

/**
 * The address at which the responder listens, as the pods of the host network do: the node's, or another one of this host if
 * that is not its own. Undefined if the host has none of the family.
 */
export function responderAddress(family: Family, nodeIP: string, own: readonly string[]): string | undefined {
  const usable = own.filter((address) => familyOf(address) === family && !isLoopback(address) && !isLinkLocal(address));
  return usable.includes(nodeIP) ? nodeIP : usable[0];
}

/** Link-local IPv6 addresses are ambiguous without an interface. */
function isLinkLocal(address: string): boolean {
  return prefixContains("fe80::/10", address);
}
