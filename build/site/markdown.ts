/** Markdown to HTML. */
import { Marked, type Tokens } from "marked";

/** A heading of a page with its text up to the next heading; the unit that the search finds. */
export interface Section {
  /** Address within the site: `explain.html#limits`. */
  readonly id: string;
  /** Name of the page in the navigation. */
  readonly page: string;
  /** Text of the heading. */
  readonly title: string;
  readonly text: string;
}

/** A heading of a page. */
export interface Heading {
  readonly id: string;
  readonly depth: number;
  /** Plain text. */
  readonly text: string;
}

/** A page as HTML; its links are as in the Markdown. */
export interface Rendered {
  readonly html: string;
  readonly headings: readonly Heading[];
}

/** Renders a page. Headings get the ids that GitHub gives them, so that the same links work in both places. */
export function render(markdown: string): Rendered {
  const headings: Heading[] = [];
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }: Tokens.Heading): string {
        const html = this.parser.parseInline(tokens);
        const text = plain(html);
        const id = freeId(slug(text), headings);
        headings.push({ id, depth, text });
        return `<h${depth} id="${id}"><a href="#${id}">${html}</a></h${depth}>\n`;
      },
      code({ text, lang }: Tokens.Code): string {
        return `<pre tabindex="0"><code>${escapeHtml(lang === "mermaid" ? arrows(text) : text)}</code></pre>\n`;
      },
    },
  });
  const html = marked.parse(markdown, { async: false })
    .replaceAll(/<table>[\s\S]*?<\/table>/g, (table) => `<div class="table" tabindex="0">${table}</div>`);
  return { html, headings };
}

/** Splits a page into the sections for the search. */
export function sections({ html, headings }: Rendered, file: string, page: string): readonly Section[] {
  const texts = html.split(/<h[1-6] id="[^"]*">[\s\S]*?<\/h[1-6]>/).slice(1);
  return headings.map(({ id, text }, i) => ({ id: `${file}#${id}`, page, title: text, text: plain(texts[i]!) }));
}

/** Escapes text for HTML, attribute values included. */
export function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

/** The text of HTML without its tags. */
function plain(html: string): string {
  return html.replaceAll(/<[^>]*>/g, " ").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'").replaceAll("&amp;", "&").replaceAll(/\s+/g, " ").trim();
}

/** GitHub's id of a heading. */
function slug(text: string): string {
  return text.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(" ", "-");
}

function freeId(id: string, taken: readonly Heading[]): string {
  const isFree = (one: string) => taken.every((heading) => heading.id !== one);
  let free = id;
  for (let n = 1; !isFree(free); n++) free = `${id}-${n}`;
  return free;
}

/** The arrows of a Mermaid flowchart as text, one line for each node. */
function arrows(flowchart: string): string {
  const targets = Map.groupBy(flowchart.matchAll(/(\w+) --> (\w+)/g), ([, from]) => from!);
  return [...targets].map(([from, to]) => `${from.padEnd(10)}→ ${to.map(([, , name]) => name).join(", ")}`).join("\n");
}
