/** The reference model: which connections succeed in a small cluster, and which pods answer, in the simplest possible form. */
import type { ProxyMode } from "../../../core/model/mod.ts";
import { type Namespace, NETWORK } from "../../../demo/lab.ts";
import type { EndpointFields, Pod, ServiceFields, ServiceNumber, Step } from "./history.ts";

/** The cluster in the API. */
export interface ClusterState {
  readonly services: Map<ServiceNumber, ServiceFields>;
  /** By `service/slice` number. */
  readonly slices: Map<string, readonly EndpointFields[]>;
  zone: string | undefined;
}

/** A cluster and the proxy mode of its node. */
export interface Cluster {
  readonly state: ClusterState;
  readonly mode: ProxyMode;
}

/** The target of a connection. */
export type Target = "cluster IP" | "node port" | "load balancer";

/** The expected outcome: one of these pods answers, the connection is refused, it times out, or either of the latter two. */
export type Expectation = { readonly by: readonly Pod[] } | "refused" | "silence" | "no answer";

/** A cluster with nothing but the node. */
export function emptyState(): ClusterState {
  return { services: new Map(), slices: new Map(), zone: undefined };
}

/** Applies a step to the state. */
export function advance(state: ClusterState, step: Step): void {
  if (step.kind === "set service") state.services.set(step.service, step.fields);
  if (step.kind === "delete service") state.services.delete(step.service);
  if (step.kind === "set slice") state.slices.set(`${step.service}/${step.slice}`, step.endpoints);
  if (step.kind === "delete slice") state.slices.delete(`${step.service}/${step.slice}`);
  if (step.kind === "label node") state.zone = step.zone;
}

/**
 * The expected outcome of a connection to a service. IPVS mode has one list of endpoints per address for all clients, and
 * filters packets before it selects an endpoint (docs/ipvs.md).
 */
export function expected(
  { state, mode }: Cluster,
  from: Namespace,
  service: ServiceNumber,
  target: Target,
): Expectation {
  const fields = state.services.get(service);
  if (!fields || !hasTarget(fields, target)) return "no answer";
  const all = [...state.slices].filter(([key]) => key.startsWith(`${service}/`)).flatMap(([, endpoints]) => endpoints);
  const used = (some: readonly EndpointFields[]) => {
    const ready = some.filter(({ state }) => state === "ready");
    return ready.length > 0 ? ready : some.filter(({ state }) => state === "terminating");
  };
  const isIPVS = mode === "ipvs";
  const isDenied = target === "load balancer" && !isAdmitted(fields, from);
  if (isDenied && isIPVS) return "silence";
  if (used(all).length === 0) return "refused";
  if (isDenied) return "silence";
  // The external traffic policy does not apply to connections from pods and the node to load balancers and node ports
  // (KEP-1864).
  const isLocal = target === "cluster IP"
    ? fields.internal === "Local"
    : fields.external === "Local" && (isIPVS || from === "outside");
  const anywhere = { by: podsOf(inZone(used(all), state.zone)) };
  if (!isLocal) return anywhere;
  const local = used(all.filter(({ pod }) => pod !== "pod-3"));
  if (local.length > 0) return { by: podsOf(local) };
  if (!isIPVS) return "silence";
  if (target === "cluster IP") return "refused";
  return from === "outside" ? "silence" : anywhere;
}

function hasTarget({ type }: ServiceFields, target: Target): boolean {
  return target === "cluster IP" || type === "LoadBalancer" || (target === "node port" && type === "NodePort");
}

function isAdmitted({ allows }: ServiceFields, from: Namespace): boolean {
  return allows === "all" || (allows === "outside" && from === "outside");
}

/** Hints apply only if every ready endpoint has one and one of them names this zone (KEP-2433). */
function inZone(used: readonly EndpointFields[], zone: string | undefined): readonly EndpointFields[] {
  const hinted = used.every(({ hint, state }) => hint !== undefined && state === "ready");
  const here = used.filter(({ hint }) => hint === zone);
  return hinted && zone !== undefined && here.length > 0 ? here : used;
}

function podsOf(endpoints: readonly EndpointFields[]): Pod[] {
  return endpoints.map(({ pod }) => pod);
}

/** The address and port of a target. */
export function addressOf(service: ServiceNumber, target: Target): { readonly address: string; readonly port: number } {
  const isIPv6 = service === 2;
  if (target === "node port") {
    return { address: NETWORK.node[isIPv6 ? "IPv6" : "IPv4"], port: 30_080 + service };
  }
  const [network, number] = target === "cluster IP"
    ? [isIPv6 ? "fd00:10:96::3:" : "10.96.0.", 100 + service]
    : [isIPv6 ? "2001:db8:51::" : "198.51.100.", 1 + service];
  return { address: `${network}${number}`, port: 80 };
}
