import { canonicalAddress } from "../../platform/mod.ts";
import type { Node } from "./cluster_object.ts";
import type { DecodeOptions } from "./decode_options.ts";
import { readPrefixes } from "./fields.ts";
import { type Decoded, readMetadata } from "./metadata.ts";
import { createProblems, listOf, type Problems } from "./problems.ts";
import { isAbsent, quote, type RawObject, rawObject, stringsOf, textOf } from "./raw.ts";

/** The cluster autoscaler's taint on a node that it is about to delete (kube-proxy's ProxyHealthServer.SyncNode). */
const TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler";

/** Decodes a Node. */
export function decodeNode(raw: RawObject, { details }: DecodeOptions): Decoded {
  const { ref, labels, annotations, metadata, problem } = readMetadata("Node", raw);
  if (ref === undefined) return { ref, object: undefined, problems: [problem!] };
  const problems = createProblems();
  const spec = rawObject(raw.spec);
  const node: Node = {
    kind: "Node",
    name: ref.name,
    zone: textOf(labels["topology.kubernetes.io/zone"]),
    addresses: readNodeAddresses(rawObject(raw.status), problems),
    podCIDRs: readPodCIDRs(spec, problems),
    leaving: !isAbsent(metadata.deletionTimestamp) || isToBeDeleted(spec, problems),
    ...typeof metadata.uid === "string" && { uid: metadata.uid },
    ...details && {
      details: {
        labels: stringsOf(labels, details.nodeLabels),
        annotations: stringsOf(annotations, details.nodeAnnotations),
      },
    },
  };
  return { ref, object: node, problems: problems.sentences() };
}

/** Internal addresses first, then external ones, each in the order of the Node (GetNodeHostIPs). */
function readNodeAddresses(status: RawObject, problems: Problems): readonly string[] {
  const internal: string[] = [];
  const external: string[] = [];
  for (const item of listOf(status.addresses, "status.addresses", problems)) {
    const { type, address } = rawObject(item);
    if (type !== "InternalIP" && type !== "ExternalIP") continue;
    const canonical = typeof address === "string" ? canonicalAddress(address) : undefined;
    if (canonical === undefined) {
      problems.add(`${type} ${quote(address)} is not an IP address; ignored`);
    } else {
      (type === "InternalIP" ? internal : external).push(canonical);
    }
  }
  return [...new Set([...internal, ...external])];
}

function readPodCIDRs(spec: RawObject, problems: Problems): readonly string[] {
  if (!isAbsent(spec.podCIDRs)) return readPrefixes(spec.podCIDRs, "spec.podCIDRs", problems);
  return isAbsent(spec.podCIDR) ? [] : readPrefixes([spec.podCIDR], "spec.podCIDR", problems);
}

function isToBeDeleted(spec: RawObject, problems: Problems): boolean {
  return listOf(spec.taints, "spec.taints", problems).some((taint) => rawObject(taint).key === TO_BE_DELETED);
}
