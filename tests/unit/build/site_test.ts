import assert from "node:assert/strict";
import { buildSite, createSearch, type Section } from "../../../build/site/mod.ts";

const ROOT = new URL("../../../", import.meta.url);
const site = buildSite(ROOT);
const textOf = (path: string): string => {
  const content = site.get(path);
  assert(typeof content === "string", `${path} is not in the site`);
  return content;
};
const html = [...site.keys()].filter((path) => path.endsWith(".html")).map((path) => [path, textOf(path)] as const);

/** Builds a site from these files, README.md and docs/ included. */
function siteOf(files: Readonly<Record<string, string>>): ReturnType<typeof buildSite> {
  const folder = Deno.makeTempDirSync();
  try {
    Deno.mkdirSync(`${folder}/docs`);
    for (const [path, text] of Object.entries({ "README.md": "# Project\n", ...files })) {
      Deno.writeTextFileSync(`${folder}/${path}`, text);
    }
    return buildSite(new URL(`file://${folder}/`));
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

Deno.test("the site has every page of docs/, and each page lists all of them", () => {
  const sources = [...Deno.readDirSync(new URL("docs", ROOT))].map(({ name }) => name).filter((name) =>
    name.endsWith(".md")
  );
  assert(sources.length > 10);
  for (const name of sources) {
    const file = name.replace(/\.md$/, ".html");
    for (const [path, text] of html) assert(text.includes(`<li><a href="${file}"`), `${path} does not list ${file}`);
    textOf(file);
  }
});

Deno.test("a page that no group lists is in the navigation too", () => {
  const files = siteOf({ "docs/new_page.md": "# Something new\n" });
  assert.match(String(files.get("index.html")), /<h2>Reference<\/h2>\n<ul><li><a href="new_page.html">New page<\/a>/);
  assert.match(String(files.get("new_page.html")), /<a href="new_page.html" aria-current="page">/);
});

Deno.test("pages load nothing from other hosts, and have no inline script or style", () => {
  for (const [path, text] of html) {
    const loaded = [...text.matchAll(/<(?:script|link|img|source|iframe|video|object|embed)\b[^>]*>/g)];
    assert(loaded.length > 1, path);
    for (const [tag] of loaded) assert.doesNotMatch(tag, /(?:src|srcset|href|data)="(?:[a-z]+:)?\/\//, path);
    assert.doesNotMatch(text, /<style|<script(?![^>]* src=)|<[^>]* (?:style|on[a-z]+)="/, path);
    assert.match(text, /http-equiv="Content-Security-Policy" content="default-src 'none'; /, path);
  }
  assert.doesNotMatch(textOf("style.css"), /@import|url\(/);
});

Deno.test("every link leads to a file and a heading of the site", () => {
  for (const [path, text] of html) {
    for (const [, link] of text.matchAll(/ (?:href|src|srcset)="(?![a-z]+:)([^"]*)"/g)) {
      const [file, id] = link!.split("#");
      const target = file === "" ? path : file!;
      assert(site.has(target) || target === "site.js", `${path} links to ${link}`);
      if (id !== undefined) assert(textOf(target).includes(` id="${id}"`), `${path} links to ${link}`);
    }
  }
});

Deno.test("a link to a missing file or heading fails the build with the name of the page", () => {
  assert.throws(
    () => siteOf({ "docs/a.md": "# A\n\n[b](b.md)" }),
    /^Error: docs\/a\.md links to b\.md, which does not/,
  );
  assert.throws(
    () => siteOf({ "docs/a.md": "# A\n\n[b](b.md#part)", "docs/b.md": "# B\n" }),
    /^Error: docs\/a\.md links to b\.html#part, but there is no such heading/,
  );
});

Deno.test("links between pages, to files and to folders are rewritten", () => {
  const markdown =
    "[docs/a.md](docs/a.md) [part](docs/a.md#the-b--c-part) [x](x.yaml) [folder](docs/) ![p](docs/p.svg)";
  const files = siteOf({
    "README.md": markdown,
    "docs/a.md": "# A\n\n## The `b` & c part\n",
    "x.yaml": "x: 1\n",
    "docs/p.svg": "<svg/>",
  });
  assert.match(
    String(files.get("index.html")),
    /<p><a href="a.html">A<\/a> <a href="a.html#the-b--c-part">part<\/a> <a href="files\/x.yaml">x<\/a> folder <img src="files\/docs\/p.svg"/,
  );
  assert.deepEqual(files.get("files/x.yaml"), new TextEncoder().encode("x: 1\n"));
});

Deno.test("the search finds pages by word, prefix and near misses", () => {
  const sections = JSON.parse(textOf("sections.json")) as readonly Section[];
  const search = createSearch(sections);
  for (const query of ["explain", "expl", "explein"]) {
    const [first] = search(query, 8);
    assert.match(first?.section.id ?? "", /^explain\.html#/, query);
  }
  assert.match(search("explain", 8)[0]!.excerpt, /explain/);
  assert.deepEqual(search("explain zeppelin", 8), []);
  assert.equal(search("the", 3).length, 3);
});
