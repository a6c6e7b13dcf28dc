import { canonicalAddress, joinHostPort } from "../platform/mod.ts";

/** An `address:port` to listen on, or what is wrong with it. */
export type BindAddress = { readonly joined: string } | { readonly must: string };

/**
 * The canonical form of an address to listen on. As in kube-proxy, a bare IP address gets `defaultPort`, IPv6 needs
 * brackets where a port follows, names are refused, and so is port 0.
 */
export function parseBindAddress(text: string, defaultPort: number): BindAddress {
  const bare = canonicalAddress(text);
  if (bare !== undefined) return { joined: joinHostPort(bare, defaultPort) };
  const [, inBrackets, plain, portText] = /^(?:\[([^\]]*)\]|([^:[\]]*)):([^:]*)$/.exec(text) ?? [];
  if (portText === undefined) return { must: "IP:port, or [IP]:port for IPv6" };
  const address = canonicalAddress(inBrackets ?? plain ?? "");
  if (address === undefined) return { must: "IP:port with a valid IP address" };
  const port = /^\d{1,5}$/.test(portText) ? Number(portText) : 0;
  if (port < 1 || port > 65535) return { must: "IP:port with a port from 1 to 65535" };
  return { joined: joinHostPort(address, port) };
}
