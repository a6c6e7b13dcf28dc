import { type Decoded, decodeNode, type Node } from "../../core/objects/mod.ts";
import type { NodeMessage } from "./messages.ts";

const ZONE = "topology.kubernetes.io/zone";

/** A node as KPNG says it; extended, with its addresses, the prefixes of its pods and whether it is about to go. */
export function nodeMessage(node: Node, extended: boolean): NodeMessage {
  const { name, zone, details } = node;
  // A zone that came as a label goes on as a label, which is where KPNG programs look for it.
  const labels = details?.labels ?? (zone === "" ? {} : { [ZONE]: zone });
  const told = labels[ZONE] === zone || zone === "";
  const message: NodeMessage = {
    name,
    labels,
    annotations: details?.annotations,
    topology: told ? undefined : { node: name, zone },
  };
  if (!extended) return message;
  return { ...message, addresses: node.addresses, podCIDRs: node.podCIDRs, leaving: node.leaving };
}

/** The node that a message describes, read as a Node of the API is. In full, it keeps labels and annotations. */
export function nodeOfMessage(message: NodeMessage, inFull: boolean): Decoded {
  const { name, labels = {}, annotations = {}, topology, addresses = [], podCIDRs } = message;
  const zone = topology?.zone || labels[ZONE] || "";
  const decoded = decodeNode({
    metadata: { name, labels: { [ZONE]: zone }, deletionTimestamp: message.leaving ? "told" : undefined },
    spec: { podCIDRs },
    status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
  }, false);
  if (!inFull || decoded.object === undefined) return decoded;
  return { ...decoded, object: { ...decoded.object as Node, details: { labels, annotations } } };
}
