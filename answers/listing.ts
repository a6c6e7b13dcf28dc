import { FAMILIES, type Family, joinHostPort } from "../platform/mod.ts";
import type { Protocol, ServicePortName, Verdict } from "../core/model/mod.ts";
import type { AnswerBasis } from "./basis.ts";
import { explainServiceEndpoints, specOf } from "./endpoints.ts";
import type { ExplainedEndpoint } from "./explanation.ts";
import { tableText } from "./table.ts";
import type { PlannedPort } from "../core/planning/mod.ts";

/** A service port of one family, as it is planned. */
export interface ListedService {
  /** `namespace/name:port`. */
  readonly name: ServicePortName;
  readonly family: Family;
  readonly type: string;
  readonly protocol: Protocol;
  readonly clusterIP: string;
  readonly port: number;
  readonly externalIPs: readonly string[];
  readonly loadBalancerIPs: readonly string[];
  /** 0 where there is none. */
  readonly nodePort: number;
  readonly internal: Verdict;
  readonly external: Verdict;
  /** How many endpoints are in use, and how many there are. */
  readonly usedEndpoints: number;
  readonly endpoints: number;
  readonly affinitySeconds: number;
  /** What it asks for and does not get, in sentences; then it is not served, or not everywhere. */
  readonly problems: readonly string[];
  readonly served: boolean;
}

/** An endpoint of a service port of one family. */
export interface ListedEndpoint extends ExplainedEndpoint {
  readonly service: ServicePortName;
  readonly family: Family;
  readonly protocol: Protocol;
}

/** The service ports whose name has `search` in it; all of them without. */
export function listServices(basis: AnswerBasis, search = ""): readonly ListedService[] {
  return findServicePorts(basis, { search }).flatMap((found) => listed(basis, found)?.service ?? []);
}

/** The endpoints of the service ports whose name has `search` in it. */
export function listEndpoints(basis: AnswerBasis, search = ""): readonly ListedEndpoint[] {
  return findServicePorts(basis, { search }).flatMap((found) => listed(basis, found)?.endpoints ?? []);
}

/** A service port of one family, as it was found. */
export interface FoundServicePort {
  readonly family: Family;
  readonly owner: PlannedPort;
}

/** Which service ports are looked for. */
export interface ServiceSearch {
  /** What their name has in it. */
  readonly search: string;
  /** What else must hold of them. */
  readonly wanted?: (owner: PlannedPort) => boolean;
}

/** The service ports that are looked for, by name and family. Nothing is found out about them yet. */
export function findServicePorts(basis: AnswerBasis, { search, wanted }: ServiceSearch): readonly FoundServicePort[] {
  const found = FAMILIES.flatMap((family) =>
    [...basis.families[family].planner.ports()]
      .filter((owner) => owner.wanted.name.includes(search) && (wanted === undefined || wanted(owner)))
      .map((owner) => ({ family, owner }))
  );
  const order = (a: string, b: string) => a < b ? -1 : a > b ? 1 : 0;
  return found.sort((a, b) => order(a.owner.key, b.owner.key) || order(a.family, b.family));
}

/** All there is to tell about a service port; undefined where its service is another by now than the one planned. */
export function listed(
  { tracking, nodeName }: AnswerBasis,
  { family, owner }: FoundServicePort,
): { readonly service: ListedService; readonly endpoints: readonly ListedEndpoint[] } | undefined {
  const { planned, wanted, reported } = owner;
  const service = tracking.services.get(owner.service);
  const spec = service && specOf(service, wanted);
  if (service === undefined || spec === undefined) return undefined;
  const node = { name: nodeName, zone: tracking.node.state().zone };
  const { endpoints } = explainServiceEndpoints(tracking, { service, spec, family, node });
  const port = planned ?? wanted;
  return {
    service: {
      name: port.name,
      family,
      type: service.type,
      protocol: port.protocol,
      clusterIP: port.clusterIP,
      port: port.port,
      externalIPs: port.externalIPs,
      loadBalancerIPs: port.loadBalancerIPs,
      nodePort: port.nodePort,
      internal: port.internal,
      external: port.external,
      usedEndpoints: endpoints.filter(({ used }) => used).length,
      endpoints: endpoints.length,
      affinitySeconds: port.affinitySeconds,
      problems: reported,
      served: planned !== undefined,
    },
    endpoints: endpoints.map((endpoint): ListedEndpoint => ({
      service: wanted.name,
      family,
      protocol: wanted.protocol,
      ...endpoint,
    })),
  };
}

/** Service ports as a table. */
export function servicesTable(services: readonly ListedService[]): string {
  const headings = ["name", "type", "frontends", "internal", "external", "endpoints", "notes"];
  return tableText(
    headings,
    services.map((service) => [
      service.name,
      service.type,
      frontendsOf(service),
      service.internal,
      hasOutside(service) ? service.external : "-",
      `${service.usedEndpoints}/${service.endpoints}`,
      notesOf(service),
    ]),
  );
}

/** Endpoints as a table. */
export function endpointsTable(endpoints: readonly ListedEndpoint[]): string {
  const headings = ["service", "endpoint", "node", "zone", "use", "why"];
  return tableText(
    headings,
    endpoints.map((endpoint) => [
      endpoint.service,
      `${endpoint.target}/${endpoint.protocol.toUpperCase()}`,
      endpoint.node || "-",
      endpoint.zone || "-",
      endpoint.used ? "in" : "out",
      endpoint.reason,
    ]),
  );
}

/** Whether it can be reached at anything else than its cluster IP. */
export function hasOutside(
  { externalIPs, loadBalancerIPs, nodePort }: Pick<ListedService, "externalIPs" | "loadBalancerIPs" | "nodePort">,
): boolean {
  return externalIPs.length > 0 || loadBalancerIPs.length > 0 || nodePort !== 0;
}

function frontendsOf(service: ListedService): string {
  return `${frontendsOfService(service).join(",")}/${service.protocol.toUpperCase()}`;
}

/** Where it is reached, each as `address:port`; the node port as `*:port`. */
export function frontendsOfService(service: ListedService): readonly string[] {
  const addresses = [service.clusterIP, ...service.loadBalancerIPs, ...service.externalIPs];
  const at = addresses.map((address) => joinHostPort(address, service.port));
  return service.nodePort === 0 ? at : [...at, `*:${service.nodePort}`];
}

function notesOf({ problems, affinitySeconds }: ListedService): string {
  return [...(affinitySeconds > 0 ? [`affinity ${affinitySeconds} s`] : []), ...problems].join("; ");
}
