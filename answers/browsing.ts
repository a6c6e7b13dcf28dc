/** Pages of services for the status page and for `sluice top`. */
import type { Family } from "../platform/mod.ts";
import type { AnswerBasis } from "./basis.ts";
import { hasExternalFrontends } from "../core/model/mod.ts";
import type { PlannedPort } from "../core/planning/mod.ts";
import { findServicePorts, type FoundServicePort, listed, type ListedEndpoint, type ListedService } from "./listing.ts";

/**
 * The orders of services: broken ones first, by name, those with the fewest endpoints first, the last changed first, or
 * those with the most traffic first.
 */
export const SERVICE_ORDERS = ["broken", "name", "endpoints", "changed", "traffic"] as const;

/** Selects a page of services. */
export interface BrowseQuestion {
  /** Only services whose name contains this. */
  readonly search: string;
  /** Only services of this namespace; of all by default. */
  readonly namespace?: string;
  /** Only broken services: refused by the kernel, without a frontend that another one has, or without endpoints. */
  readonly attention: boolean;
  /** By name by default; services that are equal in another order are sorted by name. */
  readonly order?: typeof SERVICE_ORDERS[number];
  /** Counted from 1; a number past the end selects the last page. */
  readonly page: number;
  readonly pageSize: number;
}

/** A service port and the endpoints that are shown. */
export interface BrowsedService extends ListedService {
  /** Unused endpoints first; truncated if there are fewer than `endpoints`. */
  readonly shownEndpoints: readonly ListedEndpoint[];
}

/** A page of service ports. */
export interface ServicePage {
  /** The number of service ports on all pages. */
  readonly total: number;
  readonly page: number;
  readonly pages: number;
  readonly services: readonly BrowsedService[];
  /** The number of broken service ports in the cluster, whatever is selected. */
  readonly broken: number;
  /** The names of all namespaces with services, sorted. */
  readonly namespaces: readonly string[];
  /** Whether traffic is counted, so that services have `traffic`; absent if it is not. */
  readonly countsTraffic?: true;
}

/** Each service shows few endpoints on a page of many services, and nearly all on a page of few. */
const FEW_SERVICES = 4;
const MOST_ENDPOINTS = { ofFew: 500, ofMany: 12 };

/** Returns a page of services. Only those on the page are examined in detail. */
export function browse(
  basis: AnswerBasis,
  { search, namespace = "", attention, order = "name", page: requestedPage, pageSize }: BrowseQuestion,
): ServicePage {
  const isBroken = brokenIn(basis), broken = new Set<PlannedPort>(), namespaces = new Set<string>();
  const wanted = (owner: PlannedPort, family: Family) => {
    const ofService = owner.service.slice(0, owner.service.indexOf("/"));
    namespaces.add(ofService);
    if (isBroken(owner, family)) broken.add(owner);
    return owner.wanted.name.includes(search) && (namespace === "" || namespace === ofService) &&
      (!attention || broken.has(owner));
  };
  const found = inOrder(basis, findServicePorts(basis, { search: "", wanted }), order, broken);
  const pages = Math.max(1, Math.ceil(found.length / pageSize));
  const page = Math.min(Math.max(1, requestedPage), pages);
  const most = found.length <= FEW_SERVICES ? MOST_ENDPOINTS.ofFew : MOST_ENDPOINTS.ofMany;
  const services = found.slice((page - 1) * pageSize, page * pageSize).flatMap((one): BrowsedService[] => {
    const all = listed(basis, one);
    if (all === undefined) return [];
    const outFirst = [...all.endpoints].sort((a, b) => Number(a.used) - Number(b.used));
    return [{ ...all.service, shownEndpoints: outFirst.slice(0, most) }];
  });
  const all = { broken: broken.size, namespaces: [...namespaces].sort() };
  return {
    ...{ total: found.length, page, pages, services, ...all },
    ...(basis.traffic && { countsTraffic: true }),
  };
}

/** Sorts service ports, given by name, in another order. */
function inOrder(
  basis: AnswerBasis,
  found: readonly FoundServicePort[],
  order: BrowseQuestion["order"],
  broken: ReadonlySet<PlannedPort>,
): readonly FoundServicePort[] {
  if (order === "name") return found;
  const rank = (one: FoundServicePort): number => {
    const { owner } = one;
    switch (order) {
      case "endpoints":
        return new Set([...owner.wanted.clusterEndpoints, ...owner.wanted.localEndpoints]).size;
      case "traffic": {
        const { bytes = 0, connections = 0 } = basis.traffic?.ofPort(one.family, owner.key).perSecond ?? {};
        return -(bytes + connections);
      }
      case "changed":
        return -owner.plannedIn;
      default:
        // Those that Sluice cannot serve come before those without endpoints.
        return !broken.has(owner) ? 2 : isServed(basis, one) ? 1 : 0;
    }
  };
  return found.map((one) => ({ one, rank: rank(one) })).sort((a, b) => a.rank - b.rank).map(({ one }) => one);
}

/** Whether a service port has its cluster IP, and the kernel does not refuse it. */
function isServed({ families }: AnswerBasis, { owner, family }: FoundServicePort): boolean {
  return owner.planned !== undefined && families[family].since(owner)?.state !== "refused";
}

/** Traffic policy Local without an endpoint on this node is normal: load balancers send nothing to such a node. */
function brokenIn(basis: AnswerBasis): (owner: PlannedPort, family: Family) => boolean {
  return (owner, family) => {
    const { planned, reported } = owner;
    if (planned === undefined || reported.length > 0 || !isServed(basis, { owner, family })) return true;
    return planned.internal === "reject" || hasExternalFrontends(planned) && planned.external === "reject";
  };
}
