/** Pages of services for the status page and for `sluice top`. */
import type { Family } from "../platform/mod.ts";
import type { AnswerBasis } from "./basis.ts";
import { hasExternalFrontends } from "../core/model/mod.ts";
import type { PlannedPort } from "../core/planning/mod.ts";
import { findServicePorts, listed, type ListedEndpoint, type ListedService } from "./listing.ts";

/** Selects a page of services. */
export interface BrowseQuestion {
  /** Only services whose name contains this. */
  readonly search: string;
  /** Only broken services: refused by the kernel, without a frontend that another one has, or without endpoints. */
  readonly attention: boolean;
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
}

/** Each service shows few endpoints on a page of many services, and nearly all on a page of few. */
const FEW_SERVICES = 4;
const MOST_ENDPOINTS = { ofFew: 500, ofMany: 12 };

/** Returns a page of services. Only those on the page are examined in detail. */
export function browse(
  basis: AnswerBasis,
  { search, attention, page: requestedPage, pageSize }: BrowseQuestion,
): ServicePage {
  const found = findServicePorts(basis, { search, wanted: attention ? isBroken(basis) : undefined });
  const pages = Math.max(1, Math.ceil(found.length / pageSize));
  const page = Math.min(Math.max(1, requestedPage), pages);
  const most = found.length <= FEW_SERVICES ? MOST_ENDPOINTS.ofFew : MOST_ENDPOINTS.ofMany;
  const services = found.slice((page - 1) * pageSize, page * pageSize).flatMap((one): BrowsedService[] => {
    const all = listed(basis, one);
    if (all === undefined) return [];
    const outFirst = [...all.endpoints].sort((a, b) => Number(a.used) - Number(b.used));
    return [{ ...all.service, shownEndpoints: outFirst.slice(0, most) }];
  });
  return { total: found.length, page, pages, services };
}

/** Traffic policy Local without an endpoint on this node is normal: load balancers send nothing to such a node. */
function isBroken({ families }: AnswerBasis): (owner: PlannedPort, family: Family) => boolean {
  return (owner, family) => {
    const { planned, reported } = owner;
    if (planned === undefined || reported.length > 0) return true;
    if (families[family].since(owner)?.state === "refused") return true;
    return planned.internal === "reject" || hasExternalFrontends(planned) && planned.external === "reject";
  };
}
