import { canonicalAddress, compact } from "../../platform/mod.ts";
import { readAddresses, readPrefixes } from "./addresses.ts";
import { readClusterIPs } from "./cluster_ips.ts";
import type { Decoded } from "./decoded.ts";
import { readServiceDetails } from "./details.ts";
import { readIdentity } from "./identity.ts";
import { createProblems, isWholeNumber, listOf, type Problems } from "./problems.ts";
import { isAbsent, quote, type RawObject, rawObject } from "./raw.ts";
import type { Service } from "./service.ts";
import { readServicePorts } from "./service_ports.ts";

/** The timeout of ClientIP affinity where none is told, and the longest one that the API allows, in seconds. */
const DEFAULT_AFFINITY_SECONDS = 10800;
const LONGEST_AFFINITY_SECONDS = 86400;

/** Gives a Service to another proxy. The label's presence counts, not its value (KEP-2447). */
const SERVICE_PROXY_NAME = "service.kubernetes.io/service-proxy-name";

/** The label and its value by which installers mark the Service of cluster DNS, whatever serves it. */
const APP = "k8s-app", CLUSTER_DNS = "kube-dns";

/** Reduces a Service; in full, it keeps the details. */
export function decodeService(raw: RawObject, inFull: boolean): Decoded {
  const { ref, labels, problem } = readIdentity("Service", raw);
  if (ref === undefined) return { ref, object: undefined, problems: [problem!] };
  const problems = createProblems();
  const spec = rawObject(raw.spec);
  const type = readOneOf(spec.type, "spec.type", SERVICE_TYPES, problems);
  const externalIPs = readAddresses(spec.externalIPs, "spec.externalIPs", problems);
  const externalPolicyLocal = isExternallyAccessible(type, externalIPs) &&
    readOneOf(spec.externalTrafficPolicy, "spec.externalTrafficPolicy", POLICIES, problems) === "Local";

  const service: Service = {
    kind: "Service",
    namespace: ref.namespace,
    name: ref.name,
    type,
    clusterIPs: type === "ExternalName" ? [] : readClusterIPs(spec, problems),
    externalIPs,
    loadBalancerIPs: readLoadBalancerIPs(rawObject(raw.status), problems),
    ports: readServicePorts(spec.ports, problems, inFull),
    affinitySeconds: readAffinity(spec, problems),
    sourceRanges: readSourceRanges(spec, problems),
    internalPolicyLocal:
      readOneOf(spec.internalTrafficPolicy, "spec.internalTrafficPolicy", POLICIES, problems) === "Local",
    externalPolicyLocal,
    healthCheckNodePort: type === "LoadBalancer" && externalPolicyLocal ? readHealthCheckNodePort(spec, problems) : 0,
    leftAlone: labels[SERVICE_PROXY_NAME] !== undefined,
    ...labels[APP] === CLUSTER_DNS && { isClusterDNS: true },
    ...inFull && { details: readServiceDetails(labels) },
  };
  return { ref, object: service, problems: problems.sentences() };
}

const SERVICE_TYPES = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"] as const;
const POLICIES = ["Cluster", "Local"] as const;
const AFFINITIES = ["None", "ClientIP"] as const;

/** The value of a field that takes a few words; the first of them where it is absent or, with a problem, unknown. */
function readOneOf<T extends string>(
  value: unknown,
  field: string,
  words: readonly [T, ...T[]],
  problems: Problems,
): T {
  if (isAbsent(value) || value === "") return words[0];
  const found = words.find((word) => word === value);
  if (found !== undefined) return found;
  problems.add(`${field} is ${quote(value)} instead of ${words.join(" or ")}; it is taken for ${words[0]}`);
  return words[0];
}

/** Whether the external traffic policy means anything for a service (ExternallyAccessible in pkg/api/v1/service). */
function isExternallyAccessible(type: Service["type"], externalIPs: readonly string[]): boolean {
  return type === "NodePort" || type === "LoadBalancer" || (type === "ClusterIP" && externalIPs.length > 0);
}

/** The addresses of a load balancer that the node answers for itself: ipMode VIP, or none (KEP-1860). */
function readLoadBalancerIPs(status: RawObject, problems: Problems): readonly string[] {
  const found: string[] = [];
  for (const item of listOf(rawObject(status.loadBalancer).ingress, "status.loadBalancer.ingress", problems)) {
    const { ip, ipMode } = rawObject(item);
    if (isAbsent(ip) || ip === "" || ipMode === "Proxy") continue;
    const address = typeof ip === "string" ? canonicalAddress(ip) : undefined;
    if (address === undefined) {
      problems.add(`its load balancer IP ${quote(ip)} is no IP address; it is left out`);
    } else if (!isAbsent(ipMode) && ipMode !== "VIP") {
      problems.add(
        `its load balancer IP ${quote(ip)} has the ipMode ${quote(ipMode)} instead of VIP or Proxy; it is left out`,
      );
    } else if (!found.includes(address)) {
      found.push(address);
    }
  }
  return compact(found);
}

function readAffinity(spec: RawObject, problems: Problems): number {
  if (readOneOf(spec.sessionAffinity, "spec.sessionAffinity", AFFINITIES, problems) === "None") return 0;
  const { timeoutSeconds } = rawObject(rawObject(spec.sessionAffinityConfig).clientIP);
  if (isAbsent(timeoutSeconds)) return DEFAULT_AFFINITY_SECONDS;
  if (isWholeNumber(timeoutSeconds, 1, LONGEST_AFFINITY_SECONDS)) return timeoutSeconds;
  problems.add(
    `its affinity timeoutSeconds is ${
      quote(timeoutSeconds)
    }, which is not between 1 and ${LONGEST_AFFINITY_SECONDS}; ` +
      `${DEFAULT_AFFINITY_SECONDS} is used`,
  );
  return DEFAULT_AFFINITY_SECONDS;
}

/**
 * The field's ranges; the annotation that came before the field means nothing to kube-proxy. With no usable range left
 * everybody is let in, as by kube-proxy, and that is said.
 */
function readSourceRanges(spec: RawObject, problems: Problems): readonly string[] {
  const field = "spec.loadBalancerSourceRanges";
  const ranges = readPrefixes(spec.loadBalancerSourceRanges, field, problems);
  const told = Array.isArray(spec.loadBalancerSourceRanges) ? spec.loadBalancerSourceRanges.length : 0;
  if (told > 0 && ranges.length === 0) problems.add(`${field} holds no usable prefix; everybody is let in`);
  return ranges;
}

function readHealthCheckNodePort(spec: RawObject, problems: Problems): number {
  if (isWholeNumber(spec.healthCheckNodePort, 1, 65535)) return spec.healthCheckNodePort;
  const value = isAbsent(spec.healthCheckNodePort) ? "missing" : quote(spec.healthCheckNodePort);
  problems.add(`spec.healthCheckNodePort is ${value}; load balancers cannot ask whether this node has endpoints`);
  return 0;
}
