import { canonicalAddress, compact, type Family, familyOf } from "../../platform/mod.ts";
import type { EndpointDetails, EndpointPort, EndpointSlice, PodRef, SliceEndpoint } from "./cluster_object.ts";
import type { DecodeOptions } from "./decode_options.ts";
import { readPort } from "./fields.ts";
import { createInterner, internString, internStrings } from "./intern.ts";
import { type Decoded, isLabel, NAME_RULE, readMetadata } from "./metadata.ts";
import { createProblems, listOf, type Problems } from "./problems.ts";
import { isAbsent, quote, type RawObject, rawObject, textOf } from "./raw.ts";

const SERVICE_NAME = "kubernetes.io/service-name";
/** Marks the slices of headless services, which are not load-balanced; the label's presence counts, not its value. */
const HEADLESS = "service.kubernetes.io/headless";
const TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time";

/** Decodes an EndpointSlice. */
export function decodeEndpointSlice(raw: RawObject, options: DecodeOptions): Decoded {
  const { ref, labels, annotations, problem } = readMetadata("EndpointSlice", raw);
  if (ref === undefined) return { ref, object: undefined, problems: [problem!] };
  const refused = (...problems: string[]): Decoded => ({ ref, object: undefined, problems });

  const serviceName = labels[SERVICE_NAME];
  if (isAbsent(serviceName) || serviceName === "" || labels[HEADLESS] !== undefined) return refused();
  if (!isLabel(serviceName)) {
    return refused(`label ${SERVICE_NAME}: ${quote(serviceName)} may only contain ${NAME_RULE}; slice ignored`);
  }
  const family = raw.addressType;
  if (family === "FQDN") return refused();
  if (family !== "IPv4" && family !== "IPv6") {
    return refused(`addressType is ${quote(family)}, not IPv4, IPv6 or FQDN; slice ignored`);
  }

  const problems = createProblems();
  const slice: EndpointSlice = {
    kind: "EndpointSlice",
    namespace: ref.namespace,
    name: ref.name,
    serviceName: internString(serviceName),
    family,
    ports: readEndpointPorts(raw.ports, problems),
    endpoints: readEndpoints(raw.endpoints, { namespace: ref.namespace, family }, problems, options),
    triggerTimeMs: readTriggerTime(annotations[TRIGGER_TIME]),
  };
  return { ref, object: slice, problems: problems.sentences() };
}

const portLists = createInterner<readonly EndpointPort[]>(5_000);

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
function readEndpoint(
  raw: RawObject,
  family: Family,
  number: number,
  problems: Problems,
): SliceEndpoint | undefined {
  const problem = (what: string) => problems.add(`endpoint ${number}: ${what}; ignored`);
  const first = Array.isArray(raw.addresses) ? raw.addresses[0] : undefined;
  if (isAbsent(first)) {
    problem("no address");
    return undefined;
  }
  const address = typeof first === "string" ? canonicalAddress(first) : undefined;
  if (address === undefined) {
    problem(`address ${quote(first)} is not an IP address`);
    return undefined;
  }
  if (familyOf(address) !== family) {
    problem(`address ${quote(first)} is not of the slice's family ${family}`);
    return undefined;
  }
  const { ready, serving, terminating } = rawObject(raw.conditions);
  if (!isCondition(ready) || !isCondition(serving) || !isCondition(terminating)) {
    const [name, value] = Object.entries({ ready, serving, terminating }).find(([, value]) => !isCondition(value))!;
    problem(`condition ${name} is ${quote(value)}, not true or false`);
    return undefined;
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

/** The pod of an endpoint, by default in the namespace of its slice; undefined if its target is none. */
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

/** The details of an endpoint; undefined if it has none. */
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

/** An invalid time counts as none, as in kube-proxy: it only affects a metric. */
function readTriggerTime(value: unknown): number {
  if (typeof value !== "string" || !/^\d{4}-\d\d-\d\dT/.test(value)) return 0;
  const timeMs = Date.parse(value);
  return Number.isNaN(timeMs) ? 0 : timeMs;
}
