/** The search, in the browser. */
import MiniSearch from "minisearch";
import type { Section } from "./markdown.ts";

/** A section that matches. */
export interface Match {
  readonly section: Section;
  /** Part of the section's text around the first matching word; its beginning if only the heading matches. */
  readonly excerpt: string;
}

const BEFORE = 40;
const LENGTH = 140;

/** Indexes the sections and returns the search: best match first, at most `limit`. All words must match, by prefix or nearly. */
export function createSearch(sections: readonly Section[]): (query: string, limit: number) => readonly Match[] {
  const byId = new Map(sections.map((section) => [section.id, section]));
  const index = new MiniSearch<Section>({
    fields: ["title", "page", "text"],
    searchOptions: {
      boost: { title: 4, page: 1.5 },
      combineWith: "AND",
      prefix: true,
      fuzzy: (term) => term.length > 4 ? 0.2 : false,
    },
  });
  index.addAll(sections);
  return (query, limit) =>
    index.search(query).slice(0, limit).map(({ id, terms }) => {
      const section = byId.get(id)!;
      return { section, excerpt: excerptOf(section.text, terms) };
    });
}

function excerptOf(text: string, terms: readonly string[]): string {
  const lower = text.toLowerCase();
  const places = terms.map((term) => lower.indexOf(term)).filter((place) => place >= 0);
  const from = Math.max(0, Math.min(...places, text.length) - BEFORE);
  const start = places.length === 0 || from === 0 ? 0 : lower.indexOf(" ", from) + 1;
  const end = text.length <= start + LENGTH ? text.length : text.lastIndexOf(" ", start + LENGTH);
  return (start > 0 ? "… " : "") + text.slice(start, end) + (end < text.length ? " …" : "");
}
