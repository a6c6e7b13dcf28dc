import { canonicalAddress, compact, type Family, familyOf } from "../../platform/mod.ts";
import type { Decoded } from "./decoded.ts";
import { readEndpointDetails } from "./details.ts";
import type { EndpointPort, EndpointSlice, SliceEndpoint } from "./endpoint_slice.ts";
import { readEndpointPorts } from "./endpoint_ports.ts";
import { readIdentity } from "./identity.ts";
import { createInterner, internString, internStrings } from "./intern.ts";
import { isLabel, NAME_RULE } from "./names.ts";
import { createProblems, listOf, type Problems } from "./problems.ts";
import { isAbsent, quote, type RawObject, rawObject, textOf } from "./raw.ts";

const SERVICE_NAME = "kubernetes.io/service-name";
/** Marks the slices of headless services, which nobody load balances; the label's presence counts, not its value. */
const HEADLESS = "service.kubernetes.io/headless";
const TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time";

/** Reduces an EndpointSlice; in full, it keeps the details. */
export function decodeEndpointSlice(raw: RawObject, inFull: boolean): Decoded {
  const { ref, labels, annotations, problem } = readIdentity("EndpointSlice", raw);
  if (ref === undefined) return { ref, object: undefined, problems: [problem!] };
  const refused = (...problems: string[]): Decoded => ({ ref, object: undefined, problems });

  const serviceName = labels[SERVICE_NAME];
  if (isAbsent(serviceName) || serviceName === "" || labels[HEADLESS] !== undefined) return refused();
  if (!isLabel(serviceName)) {
    return refused(
      `its label ${SERVICE_NAME} is ${quote(serviceName)}, which may only hold ${NAME_RULE}; the slice is left out`,
    );
  }
  const family = raw.addressType;
  if (family === "FQDN") return refused();
  if (family !== "IPv4" && family !== "IPv6") {
    return refused(`its addressType is ${quote(family)} instead of IPv4, IPv6 or FQDN; the slice is left out`);
  }

  const problems = createProblems();
  const slice: EndpointSlice = {
    kind: "EndpointSlice",
    namespace: ref.namespace,
    name: ref.name,
    serviceName: internString(serviceName),
    family,
    ports: sharedPorts(readEndpointPorts(raw.ports, problems)),
    endpoints: readEndpoints(raw.endpoints, family, problems, inFull),
    triggerTimeMs: readTriggerTime(annotations[TRIGGER_TIME]),
  };
  return { ref, object: slice, problems: problems.sentences() };
}

const portLists = createInterner<readonly EndpointPort[]>(5_000);

function sharedPorts(ports: readonly EndpointPort[]): readonly EndpointPort[] {
  return portLists.get(ports.map((port) => `${port.name}/${port.protocol}/${port.port}`).join(), () => ports);
}

function readEndpoints(
  value: unknown,
  family: Family,
  problems: Problems,
  inFull: boolean,
): readonly SliceEndpoint[] {
  const endpoints: SliceEndpoint[] = [];
  let number = 0;
  for (const item of listOf(value, "endpoints", problems)) {
    number++;
    const raw = rawObject(item);
    const endpoint = readEndpoint(raw, family, number, problems);
    if (endpoint === undefined) continue;
    const details = inFull ? readEndpointDetails(raw) : undefined;
    endpoints.push(details === undefined ? endpoint : { ...endpoint, details });
  }
  return compact(endpoints);
}

/**
 * One endpoint. Only its first address counts: the API says that all of them are the same endpoint, and kube-proxy takes
 * the first. Conditions that are not told mean ready, serving and not terminating (kube-proxy's newEndpointSliceInfo).
 */
function readEndpoint(
  raw: RawObject,
  family: Family,
  number: number,
  problems: Problems,
): SliceEndpoint | undefined {
  const problem = (what: string) => problems.add(`endpoint ${number} ${what}`);
  const first = Array.isArray(raw.addresses) ? raw.addresses[0] : undefined;
  if (isAbsent(first)) {
    problem("has no address; it is left out");
    return undefined;
  }
  const address = typeof first === "string" ? canonicalAddress(first) : undefined;
  if (address === undefined) {
    problem(`has the address ${quote(first)} which is no IP address; it is left out`);
    return undefined;
  }
  if (familyOf(address) !== family) {
    problem(`has the address ${quote(first)} which is not of the slice's family ${family}; it is left out`);
    return undefined;
  }
  const { ready, serving, terminating } = rawObject(raw.conditions);
  if (!isCondition(ready) || !isCondition(serving) || !isCondition(terminating)) {
    const [name, value] = Object.entries({ ready, serving, terminating }).find(([, value]) => !isCondition(value))!;
    problem(`has the condition ${name} ${quote(value)} which is neither true nor false; it is left out`);
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

function isCondition(value: unknown): boolean {
  return value === undefined || value === null || typeof value === "boolean";
}

/** The names in a list of hints, sorted, each once: kube-proxy keeps them as a set, and takes an empty one for none. */
function readHints(value: unknown): readonly string[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const names = value.map((hint) => textOf(rawObject(hint).name)).filter((name) => name !== "");
  if (names.length === 0) return undefined;
  return internStrings(names.length === 1 ? names : [...new Set(names)].sort());
}

/** A wrong time only spoils a figure of a metric; it is taken for none, as kube-proxy does. */
function readTriggerTime(value: unknown): number {
  if (typeof value !== "string" || !/^\d{4}-\d\d-\d\dT/.test(value)) return 0;
  const timeMs = Date.parse(value);
  return Number.isNaN(timeMs) ? 0 : timeMs;
}
