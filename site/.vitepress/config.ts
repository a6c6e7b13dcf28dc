/** The documentation site: `deno task site` writes dist/site. It makes no request to another host. */
import { copyFileSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig, type MarkdownRenderer } from "vitepress";
import { navigation } from "../navigation.ts";

/** The repository. */
const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** Only the site's own files; VitePress writes some scripts and styles into the pages. */
const POLICY = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; " +
  "img-src 'self' data:; base-uri 'none'; form-action 'none'";

/** The icon: three streams from one gate. */
const ICON = "data:image/svg+xml," + encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><g fill="none" stroke="#2f7fd1" stroke-width="2">' +
    '<path d="M1 8h14M5 8c4 0 3-5 10-5M5 8c4 0 3 5 10 5"/></g></svg>',
);

const groups = navigation(readdirSync(join(ROOT, "docs")));
/** The pages, by Markdown file. */
const pages = new Map(groups.flatMap((group) => group.pages).map((page) => [page.source, page]));
/** Files that pages link to. */
const files = new Set<string>();

/**
 * Translates links between files of the repository: to the pages of the site, with the page's name instead of a path, or to
 * copies of other files in `files/`. A folder has no page, and loses its link.
 */
function relink(markdown: MarkdownRenderer): void {
  markdown.core.ruler.push("relink", ({ tokens, env }) => {
    for (const children of tokens.map(({ children }) => children ?? [])) {
      for (const [index, link] of children.entries()) {
        const [, path, hash] = /^(?![a-z]+:)([^#]+)(.*)/.exec(link.attrGet("href") ?? "") ?? [];
        if (path === undefined) continue;
        const source = join(relative(ROOT, dirname(env.realPath ?? env.path)), path);
        const entry = statSync(join(ROOT, source), { throwIfNoEntry: false });
        const page = pages.get(source);
        const text = children[index + 1];
        if (page !== undefined) {
          link.attrSet("href", `./${page.path}${hash}`);
          if (text.content.endsWith(".md")) text.content = page.name;
        } else if (entry?.isFile()) {
          files.add(source);
          link.attrSet("href", `files/${source}`);
          // Otherwise, VitePress takes it for a page.
          link.attrSet("target", "_self");
        } else if (entry?.isDirectory()) {
          link.attrs = null;
          link.tag = children.slice(index).find(({ type }) => type === "link_close")!.tag = "span";
        }
      }
    }
  });
}

/** Replaces Mermaid flowcharts by their arrows as text, one line for each node, since a renderer would be heavy. */
function flowcharts(markdown: MarkdownRenderer): void {
  markdown.core.ruler.push("flowcharts", ({ tokens }) => {
    for (const fence of tokens.filter(({ type, info }) => type === "fence" && info.trim() === "mermaid")) {
      const targets = Map.groupBy(fence.content.matchAll(/(\w+) --> (\w+)/g), ([, from]) => from!);
      const lines = [...targets].map(([from, to]) =>
        `${from.padEnd(10)}→ ${to.map(([, , name]) => name).join(", ")}\n`
      );
      fence.content = lines.join("");
      fence.info = "";
    }
  });
}

/** Returns GitHub's id of a heading, so that the same links work in both places. */
function slugify(text: string): string {
  return text.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(" ", "-");
}

export default defineConfig({
  title: "Sluice",
  description: "The documentation of Sluice, a Kubernetes service proxy",
  lang: "en",
  head: [["meta", { "http-equiv": "Content-Security-Policy", content: POLICY }], ["link", { rel: "icon", href: ICON }]],
  srcDir: ROOT,
  srcExclude: ["!(docs)/**/*.md", "CODE_OF_CONDUCT.md"],
  outDir: join(ROOT, "dist/site"),
  rewrites: Object.fromEntries([...pages.values()].map(({ source, path }) => [source, path])),
  markdown: {
    anchor: { slugify },
    config: (markdown) => {
      relink(markdown);
      flowcharts(markdown);
      // The theme's style, which scrolls long lines, is for fences only.
      markdown.renderer.rules.code_block = markdown.renderer.rules.fence;
    },
  },
  themeConfig: {
    sidebar: groups.map((group) => ({
      text: group.name,
      items: group.pages.map(({ name, path }) => ({ text: name, link: `/${path.replace("index.md", "")}` })),
    })),
    search: { provider: "local" },
  },
  vite: {
    // The pages are outside of the folder with the packages, where the server's build would not find Vue.
    plugins: [{
      name: "vue",
      enforce: "pre",
      resolveId: (id, _importer, { ssr }) => ssr && /^vue(\/|$)/.test(id) ? { id, external: true } : null,
    }],
  },
  buildEnd({ outDir }) {
    for (const file of files) {
      const copy = join(outDir, "files", file);
      mkdirSync(dirname(copy), { recursive: true });
      copyFileSync(join(ROOT, file), copy);
    }
  },
});
