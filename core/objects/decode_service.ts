import { canonicalAddress, compact, familyOf, orList } from "../../platform/mod.ts";
import { hashOf } from "../model/mod.ts";
import type { PortTarget, Service, ServicePortSpec } from "./cluster_object.ts";
import type { DecodeOptions } from "./decode_options.ts";
import {
  isWholeNumber,
  listOf,
  portSubject,
  type Problems,
  readAddresses,
  readPort,
  readPrefixes,
  readTimeMs,
} from "./fields.ts";
import { createInterner, internString } from "./intern.ts";
import type { Metadata } from "./metadata.ts";
import { readOwnAnnotations } from "./own_annotations.ts";
import { isAbsent, quote, type RawObject, rawObject, stringsOf } from "./raw.ts";

/** The default timeout of ClientIP affinity and the longest one that the API allows, in seconds. */
const DEFAULT_AFFINITY_SECONDS = 10800;
const LONGEST_AFFINITY_SECONDS = 86400;

/** Assigns a Service to the proxy with that name. For a proxy without a name, the label's presence counts (KEP-2447). */
const SERVICE_PROXY_NAME = "service.kubernetes.io/service-proxy-name";

/** The label with which installers mark the Service of cluster DNS, regardless of its implementation. */
const APP = "k8s-app", CLUSTER_DNS = "kube-dns";

/** Decodes a Service. */
export function decodeService(
  raw: RawObject,
  { ref, labels, annotations, metadata }: Metadata,
  problems: Problems,
  { serviceProxyName, details }: DecodeOptions,
): Service {
  const spec = rawObject(raw.spec);
  const type = readOneOf(spec.type, "spec.type", SERVICE_TYPES, problems);
  const created = readCreation(metadata.creationTimestamp);
  const { loadBalancerIPs, proxiedIPs } = readLoadBalancerIPs(rawObject(raw.status), problems);
  const own = readOwnAnnotations(annotations);
  const externalIPs = readAddresses(spec.externalIPs, "spec.externalIPs", problems);
  const externalPolicyLocal = isExternallyAccessible(type, externalIPs) &&
    readOneOf(spec.externalTrafficPolicy, "spec.externalTrafficPolicy", POLICIES, problems) === "Local";

  return {
    kind: "Service",
    namespace: ref.namespace,
    name: ref.name,
    type,
    clusterIPs: type === "ExternalName" ? [] : readClusterIPs(spec, problems),
    externalIPs,
    loadBalancerIPs,
    ports: readServicePorts(spec.ports, problems, details !== undefined),
    affinitySeconds: readAffinity(spec, problems),
    sourceRanges: readSourceRanges(spec, problems),
    internalPolicyLocal:
      readOneOf(spec.internalTrafficPolicy, "spec.internalTrafficPolicy", POLICIES, problems) === "Local",
    externalPolicyLocal,
    healthCheckNodePort: type === "LoadBalancer" && externalPolicyLocal ? readHealthCheckNodePort(spec, problems) : 0,
    ignored: labels[SERVICE_PROXY_NAME] !== serviceProxyName,
    ...!isAbsent(spec.selector) && { selector: hashOf(JSON.stringify(spec.selector)) },
    ...created !== undefined && { createdSeconds: created },
    ...proxiedIPs && { proxiedIPs },
    ...labels[APP] === CLUSTER_DNS && { isClusterDNS: true },
    ...own && { own },
    ...details && {
      details: {
        labels: stringsOf(labels, details.serviceLabels),
        annotations: stringsOf(annotations, details.serviceAnnotations),
        mapIP: false,
      },
    },
  };
}

const SERVICE_TYPES = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"] as const;
const POLICIES = ["Cluster", "Local"] as const;
const AFFINITIES = ["None", "ClientIP"] as const;

/** The time in seconds since 1970, which is the API's resolution; undefined if it is missing or no time. */
function readCreation(value: unknown): number | undefined {
  const timeMs = readTimeMs(value);
  return timeMs === undefined ? undefined : Math.floor(timeMs / 1000);
}

/** The value of an enumerated field; the first of `words` if it is absent or, with a problem, unknown. */
function readOneOf<T extends string>(
  value: unknown,
  field: string,
  words: readonly [T, ...T[]],
  problems: Problems,
): T {
  if (isAbsent(value) || value === "") return words[0];
  const found = words.find((word) => word === value);
  if (found !== undefined) return found;
  problems.add(`${field} is ${quote(value)}, not ${orList(words)}; using ${words[0]}`);
  return words[0];
}

/** Whether the external traffic policy applies to a service (ExternallyAccessible in pkg/api/v1/service). */
function isExternallyAccessible(type: Service["type"], externalIPs: readonly string[]): boolean {
  return type === "NodePort" || type === "LoadBalancer" || (type === "ClusterIP" && externalIPs.length > 0);
}

/** The load balancer IPs: the node itself serves those with ipMode VIP or unset, not those with Proxy (KEP-1860). */
function readLoadBalancerIPs(status: RawObject, problems: Problems): Pick<Service, "loadBalancerIPs" | "proxiedIPs"> {
  const served: string[] = [], proxied: string[] = [];
  for (const item of listOf(rawObject(status.loadBalancer).ingress, "status.loadBalancer.ingress", problems)) {
    const { ip, ipMode } = rawObject(item);
    if (isAbsent(ip) || ip === "") continue;
    const address = typeof ip === "string" ? canonicalAddress(ip) : undefined;
    if (address === undefined) {
      problems.add(`load balancer IP ${quote(ip)} is not an IP address; ignored`);
    } else if (!isAbsent(ipMode) && ipMode !== "VIP" && ipMode !== "Proxy") {
      problems.add(`load balancer IP ${quote(ip)} has ipMode ${quote(ipMode)}, not VIP or Proxy; ignored`);
    } else {
      const found = ipMode === "Proxy" ? proxied : served;
      if (!found.includes(address)) found.push(address);
    }
  }
  return { loadBalancerIPs: compact(served), ...proxied.length > 0 && { proxiedIPs: compact(proxied) } };
}

function readAffinity(spec: RawObject, problems: Problems): number {
  if (readOneOf(spec.sessionAffinity, "spec.sessionAffinity", AFFINITIES, problems) === "None") return 0;
  const { timeoutSeconds } = rawObject(rawObject(spec.sessionAffinityConfig).clientIP);
  if (isAbsent(timeoutSeconds)) return DEFAULT_AFFINITY_SECONDS;
  if (isWholeNumber(timeoutSeconds, 1, LONGEST_AFFINITY_SECONDS)) return timeoutSeconds;
  problems.add(
    `affinity timeoutSeconds is ${quote(timeoutSeconds)}, not between 1 and ${LONGEST_AFFINITY_SECONDS}; ` +
      `using ${DEFAULT_AFFINITY_SECONDS}`,
  );
  return DEFAULT_AFFINITY_SECONDS;
}

/**
 * The ranges of the field; like kube-proxy, ignores the annotation that preceded it. If none is usable, all clients are
 * allowed, as in kube-proxy, and a problem is reported.
 */
function readSourceRanges(spec: RawObject, problems: Problems): readonly string[] {
  const field = "spec.loadBalancerSourceRanges";
  const ranges = readPrefixes(spec.loadBalancerSourceRanges, field, problems);
  const given = Array.isArray(spec.loadBalancerSourceRanges) ? spec.loadBalancerSourceRanges.length : 0;
  if (given > 0 && ranges.length === 0) problems.add(`${field} has no usable CIDR; all clients are allowed`);
  return ranges;
}

function readHealthCheckNodePort(spec: RawObject, problems: Problems): number {
  if (isWholeNumber(spec.healthCheckNodePort, 1, 65535)) return spec.healthCheckNodePort;
  const value = isAbsent(spec.healthCheckNodePort) ? "missing" : quote(spec.healthCheckNodePort);
  problems.add(`spec.healthCheckNodePort is ${value}; load balancers cannot check whether this node has endpoints`);
  return 0;
}

/** The cluster IPs: at most one of each family, in the order of `ipFamilies`; none for a headless service. */
function readClusterIPs(spec: RawObject, problems: Problems): readonly string[] {
  let given = listOf(spec.clusterIPs, "spec.clusterIPs", problems);
  if (given.length === 0 && !isAbsent(spec.clusterIP)) given = [spec.clusterIP];
  if (spec.clusterIP === "None" || given[0] === "None") return [];
  const families = listOf(spec.ipFamilies, "spec.ipFamilies", problems);

  const found: string[] = [];
  given.forEach((item, index) => {
    if (isAbsent(item) || item === "") return;
    const problem = (what: string) => problems.add(`cluster IP ${quote(item)} ${what}; ignored`);
    const address = typeof item === "string" ? canonicalAddress(item) : undefined;
    if (address === undefined) return problem("is not an IP address");
    const family = familyOf(address);
    const wanted = families[index];
    if (!isAbsent(wanted) && wanted !== family) {
      return problem(`is not of the family ${quote(wanted)} in spec.ipFamilies`);
    }
    if (found.some((other) => familyOf(other) === family)) return problem(`is a second ${family} address`);
    found.push(address);
  });
  return compact(found);
}

const portLists = createInterner<readonly ServicePortSpec[]>(300_000);

/** The usable ports of a service. Of two with the same protocol and the same name or number, the first counts. */
function readServicePorts(value: unknown, problems: Problems, inFull: boolean): readonly ServicePortSpec[] {
  const ports: ServicePortSpec[] = [];
  const names = new Set<string>(), numbers = new Set<string>();
  listOf(value, "spec.ports", problems).forEach((item, index) => {
    const port = readServicePort(rawObject(item), index, problems, inFull);
    if (port === undefined) return;
    const name = `${port.protocol} ${port.name}`, number = `${port.protocol} ${port.port}`;
    if (!names.has(name) && !numbers.has(number)) {
      names.add(name);
      numbers.add(number);
      ports.push(port);
    } else {
      const field = names.has(name) ? "name" : "number";
      problems.add(`port ${index + 1}: same ${field} and protocol as an earlier port; ignored`);
    }
  });
  if (inFull) return compact(ports);
  const key = ports.map(({ name, protocol, port, nodePort }) => `${name}/${protocol}/${port}/${nodePort}`).join();
  return portLists.get(key, () => compact(ports));
}

function readServicePort(
  raw: RawObject,
  index: number,
  problems: Problems,
  inFull: boolean,
): ServicePortSpec | undefined {
  const port = readPort(raw, index, problems);
  if (port === undefined) return undefined;
  let nodePort = 0;
  if (isWholeNumber(raw.nodePort, 0, 65535)) nodePort = raw.nodePort;
  else if (!isAbsent(raw.nodePort)) {
    const subject = portSubject(index, port.name);
    problems.add(`${subject}: nodePort ${quote(raw.nodePort)} is not between 0 and 65535; serving without a node port`);
  }
  const { protocol, port: number } = port, name = internString(port.name);
  return { name, protocol, port: number, nodePort, ...inFull && { target: readPortTarget(raw) } };
}

/** The target port of a service port; by default the port itself. */
function readPortTarget(raw: RawObject): PortTarget {
  const { targetPort, port } = raw;
  if (typeof targetPort === "string" && targetPort !== "") return { port: 0, name: targetPort };
  const number = isWholeNumber(targetPort, 1, 65535) ? targetPort : port;
  return { port: isWholeNumber(number, 1, 65535) ? number : 0, name: "" };
}
