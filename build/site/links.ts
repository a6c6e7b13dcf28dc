/** Links between pages: from paths in the repository to addresses in the site. */
import { dirname, join, normalize } from "node:path/posix";
import { escapeHtml } from "./markdown.ts";
import type { Page } from "./pages.ts";

/** The repository as the site sees it. */
export interface Repository {
  /** Returns the kind of a path, or undefined if it does not exist. */
  kind(path: string): "file" | "folder" | undefined;
}

/** A page's HTML with addresses of the site. */
export interface Linked {
  readonly html: string;
  /** Files of the repository that the page shows or links to, by path; in the site they are below `files/`. */
  readonly files: readonly string[];
  /** Pages and headings that it links to: `explain.html`, `explain.html#limits`. */
  readonly targets: readonly string[];
}

/**
 * Rewrites the links and images of a page. A link whose text is the path of a page gets the page's name as its text. Links
 * to folders become plain text, since a folder has no page. Throws for a path that does not exist, naming the page.
 */
export function relink(html: string, page: Page, pages: readonly Page[], repository: Repository): Linked {
  const files: string[] = [];
  const targets: string[] = [];
  const resolve = (link: string): string | undefined => {
    if (/^[a-z]+:/.test(link)) return link;
    const [path = "", hash] = link.split("#");
    const source = path === "" ? page.source : normalize(join(dirname(page.source), path)).replace(/\/$/, "");
    const target = pages.find((one) => one.source === source)?.file;
    const anchor = hash === undefined ? "" : `#${hash}`;
    if (target !== undefined) targets.push(target + anchor);
    if (target !== undefined) return path === "" ? anchor : target + anchor;
    const kind = repository.kind(source);
    if (kind === undefined) throw new Error(`${page.source} links to ${link}, which does not exist: correct the path`);
    if (kind === "folder") return undefined;
    files.push(source);
    return `files/${source}`;
  };
  const images = html.replaceAll(
    /(<(?:img|source)\b[^>]*? (?:src|srcset)=")([^"]*)"/g,
    (_, before, link) => `${before}${resolve(link)}"`,
  );
  const linked = images.replaceAll(/<a href="([^"]*)"([^>]*)>([\s\S]*?)<\/a>/g, (_, link, rest, text) => {
    const address = resolve(link);
    if (address === undefined) return text;
    const named = /^[\w/]+\.md$/.test(text)
      ? pages.find(({ file }) => file === address.split("#")[0])?.name
      : undefined;
    return `<a href="${address}"${rest}>${named === undefined ? text : escapeHtml(named)}</a>`;
  });
  return { html: linked, files, targets };
}
