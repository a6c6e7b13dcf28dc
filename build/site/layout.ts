/** The frame of each page: header, navigation, contents, neighbours. */
import { escapeHtml, type Heading } from "./markdown.ts";
import type { Group, Page } from "./pages.ts";

/** Only the site's own files: no inline script or style, no other host. */
const POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'";

/** The icon, since browsers ask for one otherwise: three streams from one gate. */
const ICON = "data:image/svg+xml," + encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><g fill="none" stroke="#2f7fd1" stroke-width="2">' +
    '<path d="M1 8h14M5 8c4 0 3-5 10-5M5 8c4 0 3 5 10 5"/></g></svg>',
);

/** The content of one page. */
export interface Content {
  readonly page: Page;
  readonly headings: readonly Heading[];
  /** The page's text. */
  readonly html: string;
}

/** Renders a whole page. */
export function layout({ page, headings, html }: Content, groups: readonly Group[]): string {
  const pages = groups.flatMap((group) => group.pages);
  const at = pages.indexOf(page);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${page.file === "index.html" ? "Sluice" : `${escapeHtml(page.name)} · Sluice`}</title>
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="style.css">
<script src="site.js" defer></script>
</head>
<body>
<a class="skip" href="#content">Skip to the text</a>
<header>
<button class="menu" popovertarget="navigation">Menu</button>
<a class="brand" href="index.html">Sluice</a>
<search hidden>
<input type="search" placeholder="Search  /" aria-label="Search the documentation" autocomplete="off" spellcheck="false"
 role="combobox" aria-expanded="false" aria-controls="results">
<ul id="results" role="listbox" aria-label="Search results" hidden></ul>
</search>
</header>
<nav id="navigation" popover aria-label="Pages">
${groups.map((group) => groupList(group, page)).join("\n")}
</nav>
<main id="content" tabindex="-1">
<article>
${html}</article>
<footer>${neighbour("prev", pages[at - 1])}${neighbour("next", pages[at + 1])}</footer>
</main>
${contents(headings)}
</body>
</html>
`;
}

function groupList({ name, pages }: Group, current: Page): string {
  const items = pages.map((page) =>
    `<li><a href="${page.file}"${page === current ? ' aria-current="page"' : ""}>${escapeHtml(page.name)}</a></li>`
  );
  return `<h2>${name}</h2>\n<ul>${items.join("")}</ul>`;
}

function contents(headings: readonly Heading[]): string {
  const items = headings.filter(({ depth }) => depth === 2)
    .map(({ id, text }) => `<li><a href="#${id}">${escapeHtml(text)}</a></li>`);
  if (items.length < 2) return "";
  return `<aside aria-label="On this page"><h2>On this page</h2><ul>${items.join("")}</ul></aside>`;
}

function neighbour(rel: "prev" | "next", page: Page | undefined): string {
  if (page === undefined) return "";
  const name = escapeHtml(page.name);
  return `<a rel="${rel}" href="${page.file}">${rel === "prev" ? `← ${name}` : `${name} →`}</a>`;
}
