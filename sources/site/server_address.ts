/** The addresses of the servers of a site. */
import { decodeObject } from "../../core/objects/mod.ts";
import { readWireAddress, type WireAddress } from "../../kpng/transport/mod.ts";
import { type ApiClient, readText } from "../kubernetes/mod.ts";

/** Reads the HOST:PORT that a leader has published. Throws an Error if it is none. */
export function readServerAddress(text: string): WireAddress & { readonly kind: "tcp" } {
  const address = readWireAddress(text);
  if (address?.kind === "tcp" && address.host !== "") return address;
  throw new Error(`the address of the site's leader is ${JSON.stringify(text)}, which is not HOST:PORT`);
}

/** Returns the first address of a Node, from the API server. Throws an Error if it has none. */
export async function addressOfNode(api: ApiClient, name: string, signal: AbortSignal): Promise<string> {
  const text = await readText(api, { resource: "nodes", path: `/api/v1/nodes/${encodeURIComponent(name)}` }, signal);
  const { object } = decodeObject("Node", JSON.parse(text));
  const address = object?.kind === "Node" ? object.addresses[0] : undefined;
  if (address !== undefined) return address;
  throw new Error(`Node ${name} has no address for the site's other nodes (set site.advertiseAddress)`);
}
