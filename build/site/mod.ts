/**
 * The documentation as a static site: `deno task site` writes dist/site. It makes no request to another host, and is no
 * part of the executable.
 *
 * In: the Markdown pages of the repository. Out: HTML pages, the files that they link to, the sections for the search.
 * May touch: reads the repository; main.ts writes dist/site.
 */
export { buildSite, type SiteFiles } from "./site.ts";
export { createSearch } from "./search.ts";
export type { Section } from "./markdown.ts";
