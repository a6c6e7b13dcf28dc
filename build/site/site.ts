/** All files of the site. */
import { layout } from "./layout.ts";
import { relink, type Repository } from "./links.ts";
import { render, type Section, sections } from "./markdown.ts";
import { navigation } from "./pages.ts";

/** The files of the site by path, except the script, which `deno bundle` writes. */
export type SiteFiles = ReadonlyMap<string, string | Uint8Array>;

/**
 * Builds the site from a repository's root folder. Throws for a link to a file or heading that does not exist, naming
 * the page.
 */
export function buildSite(root: URL): SiteFiles {
  const groups = navigation(markdownFiles(root));
  const pages = groups.flatMap((group) => group.pages);
  const repository: Repository = { kind: (path) => kindOf(new URL(path, root)) };
  const site = new Map<string, string | Uint8Array>();
  const found: Section[] = [];
  const targets = new Map<string, string>();
  for (const page of pages) {
    const rendered = render(Deno.readTextFileSync(new URL(page.source, root)));
    const linked = relink(rendered.html, page, pages, repository);
    found.push(...sections({ ...rendered, html: linked.html }, page.file, page.name));
    site.set(page.file, layout({ page, headings: rendered.headings, html: linked.html }, groups));
    for (const file of linked.files) site.set(`files/${file}`, Deno.readFileSync(new URL(file, root)));
    for (const target of linked.targets) targets.set(target, page.source);
  }
  for (const [target, source] of targets) {
    if (target.includes("#") && !found.some(({ id }) => id === target)) {
      throw new Error(`${source} links to ${target}, but there is no such heading: correct the part after #`);
    }
  }
  site.set("sections.json", JSON.stringify(found));
  site.set("style.css", Deno.readTextFileSync(new URL("style.css", import.meta.url)));
  return site;
}

/** The Markdown files of the root folder and of docs/. */
function markdownFiles(root: URL): readonly string[] {
  return ["", "docs/"].flatMap((folder) =>
    [...Deno.readDirSync(new URL(folder, root))].map(({ name }) => folder + name)
  )
    .filter((path) => path.endsWith(".md"));
}

function kindOf(path: URL): "file" | "folder" | undefined {
  try {
    return Deno.statSync(path).isDirectory ? "folder" : "file";
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
