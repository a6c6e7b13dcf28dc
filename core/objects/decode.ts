import { canonicalAddress, compact, type Family, familyOf } from "../../platform/mod.ts";
import type {
  ClusterObject,
  EndpointDetails,
  EndpointPort,
  EndpointSlice,
  Kind,
  LabelledObject,
  Node,
  PodRef,
  ServiceCIDR,
  SliceEndpoint,
} from "./cluster_object.ts";
import type { DecodeOptions } from "./decode_options.ts";
import { decodeService } from "./decode_service.ts";
import { createProblems, listOf, type Problems, readPort, readPrefixes, readTimeMs } from "./fields.ts";
import { createInterner, internString, internStrings } from "./intern.ts";
import { type Decode, type Decoded, isLabel, type Metadata, NAME_RULE, readMetadata } from "./metadata.ts";
import { isAbsent, isRawObject, quote, type RawObject, rawObject, stringsOf, textOf } from "./raw.ts";

/** Decodes an object whose metadata can be used; undefined if it is irrelevant or cannot be used at all. */
type Decoder = (
  raw: RawObject,
  metadata: Metadata,
  problems: Problems,
  options: DecodeOptions,
) => ClusterObject | undefined;

const DECODERS: Readonly<Record<Kind, Decoder>> = {
  Service: decodeService,
  EndpointSlice: decodeEndpointSlice,
  Node: decodeNode,
  ServiceCIDR: decodeServiceCIDR,
  NodeLabels: decodeLabels,
  PodLabels: decodeLabels,
};

/** Decodes an object of any kind as kube-proxy 1.37 interprets its fields. */
export function decodeObject(kind: Kind, raw: unknown, options: DecodeOptions = {}): Decoded {
  const unusable = (problem: string): Decoded => ({ ref: undefined, object: undefined, problems: [problem] });
  if (!isRawObject(raw)) return unusable(`${kind} is ${quote(raw)}, not an object; ignored`);
  const metadata = readMetadata(kind, raw);
  if (typeof metadata === "string") return unusable(metadata);
  const problems = createProblems();
  const object = DECODERS[kind](raw, metadata, problems, options);
  return { ref: metadata.ref, object, problems: problems.sentences() };
}

/** A function that decodes objects with these options. */
export function createDecode(options: DecodeOptions): Decode {
  return (kind, raw) => decodeObject(kind, raw, options);
}

/** As in kube-proxy, one that is not ready or being deleted counts like any other (KEP-1880). */
function decodeServiceCIDR(raw: RawObject, { ref }: Metadata, problems: Problems): ServiceCIDR {
  const cidrs = readPrefixes(rawObject(raw.spec).cidrs, "spec.cidrs", problems);
  return { kind: "ServiceCIDR", name: ref.name, cidrs };
}

/** Decodes the labels that weights may refer to; undefined if there are none of them. */
function decodeLabels(
  _raw: RawObject,
  { ref: { kind, namespace, name }, labels: all }: Metadata,
  _problems: Problems,
  { labelKeys }: DecodeOptions,
): LabelledObject | undefined {
  const labels: Record<string, string> = {};
  for (const key of (kind === "NodeLabels" ? labelKeys?.nodes : labelKeys?.pods) ?? []) {
    const value = all[key];
    if (typeof value === "string") labels[key] = internString(value);
  }
  if (Object.keys(labels).length === 0) return undefined;
  return kind === "NodeLabels" ? { kind, name, labels } : { kind: "PodLabels", namespace, name, labels };
}

/** The label that assigns a slice to its Service. */
export const SERVICE_NAME = "kubernetes.io/service-name";
/** Marks the slices of headless services, which are not load-balanced; the label's presence counts, not its value. */
const HEADLESS = "service.kubernetes.io/headless";
const TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time";

function decodeEndpointSlice(
  raw: RawObject,
  { ref, labels, annotations }: Metadata,
  problems: Problems,
  options: DecodeOptions,
): EndpointSlice | undefined {
  const serviceName = labels[SERVICE_NAME],
    unusable = (what: string): undefined => void problems.add(`${what}; slice ignored`);
  if (isAbsent(serviceName) || serviceName === "" || labels[HEADLESS] !== undefined) return undefined;
  if (!isLabel(serviceName)) {
    return unusable(`label ${SERVICE_NAME}: ${quote(serviceName)} may only contain ${NAME_RULE}`);
  }
  const family = raw.addressType;
  if (family === "FQDN") return undefined;
  if (family !== "IPv4" && family !== "IPv6") {
    return unusable(`addressType is ${quote(family)}, not IPv4, IPv6 or FQDN`);
  }
  return {
    kind: "EndpointSlice",
    namespace: ref.namespace,
    name: ref.name,
    serviceName: internString(serviceName),
    family,
    ports: readEndpointPorts(raw.ports, problems),
    endpoints: readEndpoints(raw.endpoints, { namespace: ref.namespace, family }, problems, options),
    // An invalid time counts as none, as in kube-proxy: it only affects a metric.
    triggerTimeMs: readTimeMs(annotations[TRIGGER_TIME]) ?? 0,
  };
}

const portLists = createInterner<readonly EndpointPort[]>(300_000);

/** The usable ports of a slice. A port without a number would mean every port; kube-proxy ignores it, too. */
function readEndpointPorts(value: unknown, problems: Problems): readonly EndpointPort[] {
  const ports = compact(
    listOf(value, "ports", problems).flatMap((item, index) => readPort(rawObject(item), index, problems) ?? []),
  );
  return portLists.get(ports.map((port) => `${port.name}/${port.protocol}/${port.port}`).join(), () => ports);
}

function readEndpoints(
  value: unknown,
  { namespace, family }: Pick<EndpointSlice, "namespace" | "family">,
  problems: Problems,
  { details: inFull, podsOf, labelKeys }: DecodeOptions,
): readonly SliceEndpoint[] {
  const endpoints: SliceEndpoint[] = [];
  let number = 0;
  for (const item of listOf(value, "endpoints", problems)) {
    number++;
    const raw = rawObject(item);
    const endpoint = readEndpoint(raw, family, number, problems);
    if (endpoint === undefined) continue;
    const pod = podsOf?.(endpoint.nodeName) ? readPod(raw, namespace) : undefined;
    const details = inFull === undefined ? undefined : readEndpointDetails(raw);
    const podName = labelKeys !== undefined && labelKeys.pods.length > 0 ? readPod(raw, namespace)?.name : undefined;
    // Two shapes cost less memory than one with absent fields.
    if (pod === undefined && podName === undefined && details === undefined) endpoints.push(endpoint);
    else endpoints.push({ ...endpoint, ...(pod && { pod }), ...(podName && { podName }), ...(details && { details }) });
  }
  return compact(endpoints);
}

/**
 * Reads one endpoint. Only its first address counts, as in kube-proxy: the API defines all of them as the same endpoint.
 * Without conditions, it is ready, serving and not terminating (kube-proxy's newEndpointSliceInfo).
 */
function readEndpoint(raw: RawObject, family: Family, number: number, problems: Problems): SliceEndpoint | undefined {
  const unusable = (what: string): undefined => void problems.add(`endpoint ${number}: ${what}; ignored`);
  const first = Array.isArray(raw.addresses) ? raw.addresses[0] : undefined;
  if (isAbsent(first)) return unusable("no address");
  const address = typeof first === "string" ? canonicalAddress(first) : undefined;
  if (address === undefined) return unusable(`address ${quote(first)} is not an IP address`);
  if (familyOf(address) !== family) return unusable(`address ${quote(first)} is not of the slice's family ${family}`);
  const { ready, serving, terminating } = rawObject(raw.conditions);
  if (!isCondition(ready) || !isCondition(serving) || !isCondition(terminating)) {
    const [name, value] = Object.entries({ ready, serving, terminating }).find(([, value]) => !isCondition(value))!;
    return unusable(`condition ${name} is ${quote(value)}, not true or false`);
  }
  const hints = rawObject(raw.hints);
  return {
    address,
    ready: ready !== false,
    serving: serving !== false,
    terminating: terminating === true,
    nodeName: internString(textOf(raw.nodeName)),
    zone: internString(textOf(raw.zone)),
    zoneHints: readHints(hints.forZones),
    nodeHints: readHints(hints.forNodes),
  };
}

/** The pod of an endpoint, by default in the namespace of its slice; undefined if its target is not a pod. */
function readPod(raw: RawObject, inNamespace: string): PodRef | undefined {
  const { kind, namespace, name, uid } = rawObject(raw.targetRef);
  const [podName, podUid] = [textOf(name), textOf(uid)];
  if (kind !== "Pod" || podName === "") return undefined;
  // The same pod is an endpoint of several services.
  return {
    namespace: internString(textOf(namespace) || inNamespace),
    name: internString(podName),
    uid: internString(podUid),
  };
}

function readEndpointDetails(raw: RawObject): EndpointDetails | undefined {
  const { kind, name } = rawObject(raw.targetRef);
  const podName = kind === "Pod" ? textOf(name) : "";
  const hostname = textOf(raw.hostname);
  return podName === "" && hostname === "" ? undefined : { podName, hostname };
}

function isCondition(value: unknown): boolean {
  return value === undefined || value === null || typeof value === "boolean";
}

/** The names in a list of hints, sorted and without duplicates; like kube-proxy, treats an empty list as no hint. */
function readHints(value: unknown): readonly string[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const names = value.map((hint) => textOf(rawObject(hint).name)).filter((name) => name !== "");
  if (names.length === 0) return undefined;
  return internStrings(names.length === 1 ? names : [...new Set(names)].sort());
}

/** The cluster autoscaler's taint on a node that it is about to delete (kube-proxy's ProxyHealthServer.SyncNode). */
const TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler";

function decodeNode(
  raw: RawObject,
  { ref, labels, annotations, metadata }: Metadata,
  problems: Problems,
  { details }: DecodeOptions,
): Node {
  const spec = rawObject(raw.spec);
  return {
    kind: "Node",
    name: ref.name,
    zone: textOf(labels["topology.kubernetes.io/zone"]),
    addresses: readNodeAddresses(rawObject(raw.status), problems),
    podCIDRs: readPodCIDRs(spec, problems),
    leaving: !isAbsent(metadata.deletionTimestamp) ||
      listOf(spec.taints, "spec.taints", problems).some((taint) => rawObject(taint).key === TO_BE_DELETED),
    ...typeof metadata.uid === "string" && { uid: metadata.uid },
    ...details && {
      details: {
        labels: stringsOf(labels, details.nodeLabels),
        annotations: stringsOf(annotations, details.nodeAnnotations),
      },
    },
  };
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
