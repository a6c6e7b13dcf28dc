import type { BrowseQuestion } from "../mod.ts";

/** The selection of services, as in the page's address. */
export type View = Omit<BrowseQuestion, "pageSize">;

/** The number of service ports on one page. */
export const PAGE_SIZE = 25;

const LONGEST_SEARCH = 200;

/** Reads the view from a query. Ignores invalid values. */
export function readView(query: URLSearchParams): View {
  const page = Number(query.get("page"));
  return {
    // Names are lower-case.
    search: (query.get("q") ?? "").trim().toLowerCase().slice(0, LONGEST_SEARCH),
    attention: query.get("show") === "attention",
    page: Number.isSafeInteger(page) && page > 0 ? page : 1,
  };
}

/** The address of a view: `/?q=web&page=2`. */
export function addressOf({ search, attention, page }: View): string {
  const query = new URLSearchParams();
  if (search !== "") query.set("q", search);
  if (attention) query.set("show", "attention");
  if (page > 1) query.set("page", String(page));
  return query.size === 0 ? "/" : `/?${query}`;
}
