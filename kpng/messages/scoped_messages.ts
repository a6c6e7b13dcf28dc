import { type Decoded, decodeNode, decodeServiceCIDR, type Node, type ServiceCIDR } from "../../core/objects/mod.ts";
import type { NodeMessage, ServiceCIDRMessage } from "./messages.ts";

const ZONE = "topology.kubernetes.io/zone";

/** Converts a node to a message; if extended, with its addresses, pod CIDRs and whether it is about to be deleted. */
export function nodeMessage(node: Node, extended: boolean): NodeMessage {
  const { name, zone, details } = node;
  // A zone is sent as a label, where KPNG programs look for it, unless the labels have another one.
  const labels = details?.labels ?? (zone === "" ? {} : { [ZONE]: zone });
  const isInLabels = labels[ZONE] === zone || zone === "";
  const message: NodeMessage = {
    name,
    labels,
    annotations: details?.annotations,
    topology: isInLabels ? undefined : { node: name, zone },
  };
  if (!extended) return message;
  return { ...message, addresses: node.addresses, podCIDRs: node.podCIDRs, leaving: node.leaving };
}

/** Decodes the node in a message like a Node of the API; with `inFull`, including labels and annotations. */
export function nodeOfMessage(message: NodeMessage, inFull: boolean): Decoded {
  const { name, labels = {}, annotations = {}, topology, addresses = [], podCIDRs } = message;
  const zone = topology?.zone || labels[ZONE] || "";
  const decoded = decodeNode({
    metadata: { name, labels: { [ZONE]: zone }, deletionTimestamp: message.leaving ? "set" : undefined },
    spec: { podCIDRs },
    status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
  }, {});
  if (!inFull || decoded.object === undefined) return decoded;
  return { ...decoded, object: { ...decoded.object as Node, details: { labels, annotations } } };
}

/** Converts a ServiceCIDR to a message. */
export function serviceCIDRMessage({ name, cidrs }: ServiceCIDR): ServiceCIDRMessage {
  return { name, cidrs };
}

/** Decodes the ServiceCIDR in a message like one of the API. */
export function serviceCIDROfMessage({ name, cidrs }: ServiceCIDRMessage): Decoded {
  return decodeServiceCIDR({ metadata: { name }, spec: { cidrs } });
}
