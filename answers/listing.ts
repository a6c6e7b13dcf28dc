import { countText, FAMILIES, type Family, joinHostPort } from "../platform/mod.ts";
import {
  hasExternalFrontends,
  type Protocol,
  type ServicePort,
  type ServicePortName,
  type Verdict,
} from "../core/model/mod.ts";
import type { AnswerBasis } from "./basis.ts";
import type { Effect } from "../core/channel/mod.ts";
import { explainServiceEndpoints, specOf } from "./endpoints.ts";
import type { ExplainedEndpoint } from "./explanation.ts";
import type { CountedTraffic, ServiceTraffic } from "../observe/traffic/mod.ts";
import type { PlannedPort } from "../core/planning/mod.ts";

/** The fields of a service port that a list shows. */
type ListedPort =
  & Pick<ServicePort, "name" | "protocol" | "clusterIP" | "port" | "externalIPs" | "loadBalancerIPs" | "nodePort">
  & Pick<ServicePort, "internal" | "external" | "affinitySeconds" | "balance">;

/** A planned service port of one family. */
export interface ListedService extends ListedPort {
  readonly family: Family;
  readonly type: string;
  /** The number of endpoints in use; `endpoints` is the number of all. */
  readonly usedEndpoints: number;
  readonly endpoints: number;
  /** The frontends that it lost to other service ports, one sentence each. */
  readonly problems: readonly string[];
  readonly served: boolean;
  /** Whether its last change is in the kernel; undefined if no proxy runs. */
  readonly effect: Effect | undefined;
  /** Absent if traffic metrics are off, or no proxy runs. */
  readonly traffic?: ServiceTraffic;
}

/** An endpoint of a service port of one family. */
export interface ListedEndpoint extends ExplainedEndpoint {
  readonly service: ServicePortName;
  readonly family: Family;
  readonly protocol: Protocol;
  /** Absent if traffic metrics are off, or no proxy runs. */
  readonly traffic?: CountedTraffic;
}

/** Lists the service ports whose name contains `search`; all by default. */
export function listServices(basis: AnswerBasis, search = ""): readonly ListedService[] {
  return findServicePorts(basis, { search }).flatMap((found) => listed(basis, found)?.service ?? []);
}

/** Lists the endpoints of the service ports whose name contains `search`. */
export function listEndpoints(basis: AnswerBasis, search = ""): readonly ListedEndpoint[] {
  return findServicePorts(basis, { search }).flatMap((found) => listed(basis, found)?.endpoints ?? []);
}

/** A service port that a search found. */
export interface FoundServicePort {
  readonly family: Family;
  readonly owner: PlannedPort;
}

/** Selects service ports. */
export interface ServiceSearch {
  /** Only service ports whose name contains this. */
  readonly search: string;
  /** A further condition. */
  readonly wanted?: (owner: PlannedPort, family: Family) => boolean;
}

/** Finds service ports, sorted by name and family. It is cheap: `listed` collects the details. */
export function findServicePorts(basis: AnswerBasis, { search, wanted }: ServiceSearch): readonly FoundServicePort[] {
  const found = FAMILIES.flatMap((family) =>
    [...basis.families[family].planner.ports()]
      .filter((owner) => owner.wanted.name.includes(search) && (wanted === undefined || wanted(owner, family)))
      .map((owner) => ({ family, owner }))
  );
  const order = (a: string, b: string) => a < b ? -1 : a > b ? 1 : 0;
  return found.sort((a, b) => order(a.owner.key, b.owner.key) || order(a.family, b.family));
}

/** The details of a service port; undefined if its service has changed since it was planned. */
export function listed(
  { tracking, nodeName, families, traffic }: AnswerBasis,
  { family, owner }: FoundServicePort,
): { readonly service: ListedService; readonly endpoints: readonly ListedEndpoint[] } | undefined {
  const { planned, wanted, reported } = owner;
  const service = tracking.services.get(owner.service);
  const spec = service && specOf(service, wanted);
  if (service === undefined || spec === undefined) return undefined;
  const node = { name: nodeName, zone: tracking.node.state().zone };
  const port = planned ?? wanted;
  const { endpoints } = explainServiceEndpoints(tracking, { service, spec, family, node, port });
  const { name, protocol, clusterIP, externalIPs, loadBalancerIPs, nodePort, internal, external, affinitySeconds } =
    port;
  const frontends = { clusterIP, port: port.port, externalIPs, loadBalancerIPs, nodePort, internal, external };
  return {
    service: {
      ...{ name, family, type: service.type, protocol, ...frontends },
      usedEndpoints: endpoints.filter(({ used }) => used).length,
      endpoints: endpoints.length,
      affinitySeconds,
      ...port.balance && { balance: port.balance },
      problems: reported,
      served: planned !== undefined,
      effect: families[family].since(owner),
      ...(traffic && { traffic: traffic.ofPort(family, owner.key) }),
    },
    endpoints: endpoints.map((endpoint): ListedEndpoint => ({
      service: wanted.name,
      family,
      protocol: wanted.protocol,
      ...endpoint,
      ...(traffic && { traffic: traffic.ofEndpoint(family, owner.key, endpoint.target) }),
    })),
  };
}

/** The frontends of a service port, each as `address:port`; the node port as `*:port`. */
export function frontendsOfService(service: ListedService): readonly string[] {
  const addresses = [service.clusterIP, ...service.loadBalancerIPs, ...service.externalIPs];
  const at = addresses.map((address) => joinHostPort(address, service.port));
  return service.nodePort === 0 ? at : [...at, `*:${service.nodePort}`];
}

/** The traffic of a service port that is stopped, and why, one sentence each. */
export function stoppedTraffic(service: ListedService): readonly string[] {
  if (!service.served) return ["Not served: another service has its cluster IP."];
  if (service.effect?.state === "refused") {
    return [`Not in effect: the kernel refuses its rules: ${service.effect.refusal}`];
  }
  const { internal, external } = service;
  const inside = stopText(internal), outside = hasExternalFrontends(service) ? stopText(external) : undefined;
  return [
    ...(inside === undefined ? [] : [`Traffic to the cluster IP is ${inside}.`]),
    ...(outside === undefined ? [] : [`Traffic from outside is ${outside}.`]),
  ];
}

/** The packets of new connections that failed, by reason: `no-endpoints 12, source-range 3`; empty if none did. */
export function failuresText({ failures = {} }: ServiceTraffic): string {
  return Object.entries(failures).map(([reason, packets]) => `${reason} ${countText(packets)}`).join(", ");
}

function stopText(verdict: Verdict): string | undefined {
  if (verdict === "reject") return "rejected: no usable endpoint";
  if (verdict === "drop") return "dropped: traffic policy Local, and this node has no usable endpoint";
  return undefined;
}
