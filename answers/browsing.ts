/** A few services at a time, of however many there are: what a page or a terminal shows. */
import type { AnswerBasis } from "./basis.ts";
import type { PlannedPort } from "../core/planning/mod.ts";
import { findServicePorts, hasOutside, listed, type ListedEndpoint, type ListedService } from "./listing.ts";

/** Which services are shown. */
export interface BrowseQuestion {
  /** What their name has in it. */
  readonly search: string;
  /** Only those that are not served as they ask to be, or have no endpoint for some traffic. */
  readonly attention: boolean;
  /** Counted from 1; the last one where there are fewer. */
  readonly page: number;
  readonly pageSize: number;
}

/** A service port and its endpoints. */
export interface BrowsedService extends ListedService {
  /** Those that are out first; not all of them where `endpoints` is more. */
  readonly shownEndpoints: readonly ListedEndpoint[];
}

/** A page of service ports. */
export interface ServicePage {
  /** How many there are on all pages. */
  readonly total: number;
  readonly page: number;
  readonly pages: number;
  readonly services: readonly BrowsedService[];
}

/** Of many services, few endpoints each are shown; where few services are left, nearly all. */
const FEW_SERVICES = 4;
const MOST_ENDPOINTS = { ofFew: 500, ofMany: 12 };

/** A page of services. Costs little more for thousands of services than for what is shown. */
export function browse(basis: AnswerBasis, { search, attention, page: asked, pageSize }: BrowseQuestion): ServicePage {
  const found = findServicePorts(basis, { search, wanted: attention ? needsAttention : undefined });
  const pages = Math.max(1, Math.ceil(found.length / pageSize));
  const page = Math.min(Math.max(1, asked), pages);
  const most = found.length <= FEW_SERVICES ? MOST_ENDPOINTS.ofFew : MOST_ENDPOINTS.ofMany;
  const services = found.slice((page - 1) * pageSize, page * pageSize).flatMap((one): BrowsedService[] => {
    const all = listed(basis, one);
    if (all === undefined) return [];
    const outFirst = [...all.endpoints].sort((a, b) => Number(a.used) - Number(b.used));
    return [{ ...all.service, shownEndpoints: outFirst.slice(0, most) }];
  });
  return { total: found.length, page, pages, services };
}

function needsAttention({ planned, reported }: PlannedPort): boolean {
  if (planned === undefined || reported.length > 0) return true;
  const isStopped = (verdict: string) => verdict === "reject" || verdict === "drop";
  return isStopped(planned.internal) || hasOutside(planned) && isStopped(planned.external);
}
