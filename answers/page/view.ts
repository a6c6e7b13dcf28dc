import type { BrowseQuestion } from "../mod.ts";

/** What of the services is shown: what the page's address says. */
export type View = Omit<BrowseQuestion, "pageSize">;

/** How many service ports one page lists. */
export const PAGE_SIZE = 25;

const LONGEST_SEARCH = 200;

/** Reads the view from a query; what makes no sense is as if it were not there. */
export function readView(query: URLSearchParams): View {
  const page = Number(query.get("page"));
  return {
    // Names have no capitals.
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
