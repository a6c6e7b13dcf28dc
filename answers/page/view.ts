import type { BrowseQuestion } from "../mod.ts";

/** What the page shows, as in its address: a selection of services, and the connection to explain. */
export interface View extends Pick<BrowseQuestion, "search" | "attention" | "page"> {
  /** Empty for all namespaces. */
  readonly namespace: string;
  /** The destination to explain, as typed; empty for none. */
  readonly to: string;
  /** The client of that connection; empty for all three kinds. */
  readonly from: string;
}

/** The number of service ports on one page. */
export const PAGE_SIZE = 25;

/** The view of a page without a query. */
export const WHOLE: View = { search: "", namespace: "", attention: false, page: 1, to: "", from: "" };

const LONGEST_TEXT = 200;

/** Reads the view from a query. Ignores invalid values. */
export function readView(query: URLSearchParams): View {
  const page = Number(query.get("page"));
  // Names and addresses are lower-case.
  const text = (name: string) => (query.get(name) ?? "").trim().toLowerCase().slice(0, LONGEST_TEXT);
  return {
    search: text("q"),
    namespace: text("ns"),
    attention: query.get("show") === "attention",
    page: Number.isSafeInteger(page) && page > 0 ? page : 1,
    to: text("to"),
    from: text("from"),
  };
}

/** The address of a view: `/?q=web&page=2`. */
export function addressOf({ search, namespace, attention, page, to, from }: View): string {
  const query = new URLSearchParams();
  if (search !== "") query.set("q", search);
  if (namespace !== "") query.set("ns", namespace);
  if (attention) query.set("show", "attention");
  if (page > 1) query.set("page", String(page));
  if (to !== "") query.set("to", to);
  if (from !== "") query.set("from", from);
  return query.size === 0 ? "/" : `/?${query}`;
}
