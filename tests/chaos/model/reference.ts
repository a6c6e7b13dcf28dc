/** The reference model: who may reach what in a small cluster, and who answers, said as simply as it can be. */
import type { ProxyMode } from "../../../core/model/mod.ts";
import { NETWORK, type Place } from "../../../demo/lab.ts";
import type { EndpointWish, Pod, ServiceNumber, ServiceWish, Step } from "./history.ts";

/** The cluster as its API has it. */
export interface ClusterState {
  readonly services: Map<ServiceNumber, ServiceWish>;
  /** By service and number of the slice. */
  readonly slices: Map<string, readonly EndpointWish[]>;
  zone: string | undefined;
}

/** A cluster, and the mode in which its node serves it. */
export interface Cluster {
  readonly state: ClusterState;
  readonly mode: ProxyMode;
}

/** Where a connection goes. */
export type Target = "cluster IP" | "node port" | "load balancer";

/** What is to become of a connection: one of these answers, it is refused at once, it is never answered, or is not. */
export type Expectation = { readonly by: readonly Pod[] } | "refused" | "silence" | "no answer";

/** A cluster without anything but the node. */
export function emptyState(): ClusterState {
  return { services: new Map(), slices: new Map(), zone: undefined };
}

/** Brings the state to where it is after a step. */
export function advance(state: ClusterState, step: Step): void {
  if (step.does === "set service") state.services.set(step.service, step.wish);
  if (step.does === "delete service") state.services.delete(step.service);
  if (step.does === "set slice") state.slices.set(`${step.service}/${step.slice}`, step.endpoints);
  if (step.does === "delete slice") state.slices.delete(`${step.service}/${step.slice}`);
  if (step.does === "label node") state.zone = step.zone;
}

/**
 * What is to become of a connection to a service. IPVS mode has one list of endpoints at an address, whoever asks, and its
 * packet filter judges before it looks for an endpoint (docs/ipvs.md).
 */
export function expected(
  { state, mode }: Cluster,
  from: Place,
  service: ServiceNumber,
  target: Target,
): Expectation {
  const wish = state.services.get(service);
  if (!wish || !hasTarget(wish, target)) return "no answer";
  const all = [...state.slices].filter(([key]) => key.startsWith(`${service}/`)).flatMap(([, endpoints]) => endpoints);
  const used = (some: readonly EndpointWish[]) => {
    const ready = some.filter(({ state }) => state === "ready");
    return ready.length > 0 ? ready : some.filter(({ state }) => state === "terminating");
  };
  const isIPVS = mode === "ipvs";
  const isBarred = target === "load balancer" && !mayUse(wish, from);
  if (isBarred && isIPVS) return "silence";
  if (used(all).length === 0) return "refused";
  if (isBarred) return "silence";
  // Pods and the node reach a load balancer or a node port as if they had asked for the cluster IP of a service without
  // a policy (KEP-1864).
  const isLocal = target === "cluster IP"
    ? wish.internal === "Local"
    : wish.external === "Local" && (isIPVS || from === "outside");
  const anywhere = { by: podsOf(inZone(used(all), state.zone)) };
  if (!isLocal) return anywhere;
  const local = used(all.filter(({ pod }) => pod !== "pod-3"));
  if (local.length > 0) return { by: podsOf(local) };
  if (!isIPVS) return "silence";
  if (target === "cluster IP") return "refused";
  return from === "outside" ? "silence" : anywhere;
}

function hasTarget({ type }: ServiceWish, target: Target): boolean {
  return target === "cluster IP" || type === "LoadBalancer" || (target === "node port" && type === "NodePort");
}

function mayUse({ allows }: ServiceWish, from: Place): boolean {
  return allows === "everybody" || (allows === "outside" && from === "outside");
}

/** Hints are followed where every ready endpoint has one and one of them is for here (KEP-2433). */
function inZone(used: readonly EndpointWish[], zone: string | undefined): readonly EndpointWish[] {
  const hinted = used.every(({ hint, state }) => hint !== undefined && state === "ready");
  const here = used.filter(({ hint }) => hint === zone);
  return hinted && zone !== undefined && here.length > 0 ? here : used;
}

function podsOf(endpoints: readonly EndpointWish[]): Pod[] {
  return endpoints.map(({ pod }) => pod);
}

/** Where a service is reached. */
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
