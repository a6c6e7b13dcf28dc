/** The documentation site, and how it behaves in a browser. */
import assert from "node:assert/strict";
import type { BrowserContextOptions, Page } from "playwright-core";
import { navigation } from "../../site/navigation.ts";
import { type Visit, visit, withBrowser } from "./browser.ts";

const ROOT = new URL("../../", import.meta.url);
const SITE = new URL("dist/site/", ROOT);
const TYPES: Readonly<Record<string, string>> = {
  html: "text/html",
  css: "text/css",
  js: "text/javascript",
  json: "application/json",
  svg: "image/svg+xml",
  png: "image/png",
  woff2: "font/woff2",
};

/** Builds the site with its task, and returns its pages by name. */
async function build(): Promise<ReadonlyMap<string, string>> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), { args: ["task", "site"], cwd: ROOT }).output();
  assert(success, new TextDecoder().decode(stderr));
  const names = [...Deno.readDirSync(SITE)].map(({ name }) => name).filter((name) => name.endsWith(".html"));
  return new Map(names.map((name) => [name, Deno.readTextFileSync(new URL(name, SITE))]));
}

/** The file in the site for the path of a URL. */
function fileOf(path: string): string {
  return path.slice(1) || "index.html";
}

async function serveFile(request: Request): Promise<Response> {
  const file = fileOf(new URL(request.url).pathname);
  try {
    const body = await Deno.readFile(new URL(file, SITE));
    return new Response(body, { headers: { "content-type": TYPES[file.split(".").at(-1)!] ?? "text/plain" } });
  } catch {
    return new Response("not found", { status: 404 });
  }
}

/** Waits until the page handles keys, some time after its load event. */
async function started(page: Page): Promise<void> {
  await page.waitForFunction("document.querySelector('#app').__vue_app__ !== undefined");
}

/** Opens a page of the site, and asserts at the end that there were no violations. */
async function onSite(
  path: string,
  test: (visit: Visit) => Promise<void>,
  options?: BrowserContextOptions,
): Promise<void> {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, serveFile);
  try {
    await withBrowser((browser) =>
      visit(browser, `http://127.0.0.1:${server.addr.port}/${path}`, async (opened) => {
        await started(opened.page);
        await test(opened);
        assert.deepEqual(opened.violations, []);
      }, options)
    );
  } finally {
    await server.shutdown();
  }
}

const pages = await build();
/** Addresses of the documents: all Markdown files of the root folder and of docs/, but the code of conduct. */
const documents = ["", "docs/"].flatMap((folder) =>
  [...Deno.readDirSync(new URL(`./${folder}`, ROOT))].map(({ name }) => folder + name)
)
  .filter((path) => path.endsWith(".md") && path !== "CODE_OF_CONDUCT.md")
  .map((path) => path.replace("README.md", "").replace("SECURITY.md", "vulnerabilities.html"))
  .map((path) => path.replace("docs/", "").replace(/\.md$/, ".html").toLowerCase());

Deno.test("every document is a page, and each page lists all of them", () => {
  assert(documents.length > 20);
  for (const document of documents) {
    assert(pages.has(document || "index.html"), document);
    for (const [name, html] of pages) {
      if (name !== "404.html") assert(html.includes(` href="/${document}"`), `${name} does not list ${document}`);
    }
  }
});

Deno.test("a page of docs/ that no group lists is under Reference", () => {
  const docs = [...Deno.readDirSync(new URL("docs", ROOT))].map(({ name }) => name);
  const reference = navigation([...docs, "new_page.md"]).find(({ name }) => name === "Reference")!;
  assert.deepEqual(reference.pages.at(-1), { source: "docs/new_page.md", path: "new_page.md", name: "New page" });
  assert.throws(
    () => navigation(docs.filter((name) => name !== "wire.md")),
    /lists docs\/wire\.md, which does not exist/,
  );
});

Deno.test("a flowchart is shown as arrows", () => {
  const html = pages.get("architecture.html")!;
  assert.match(html, /main +→ cli\b/);
  assert.doesNotMatch(html, /flowchart|--&gt;/);
});

Deno.test("every link leads to a file and a heading of the site", () => {
  for (const [name, html] of pages) {
    for (const [, link] of html.matchAll(/<[^>]* (?:href|src|srcset)="(?!https?:\/\/|data:)([^"]*)"/g)) {
      const { protocol, pathname, hash } = new URL(link!, `file:///${name}`);
      const target = fileOf(pathname);
      assert(protocol === "file:" && Deno.statSync(new URL(target, SITE)).isFile, `${name} links to ${link}`);
      const id = decodeURIComponent(hash.slice(1));
      assert(hash === "" || pages.get(target)?.includes(` id="${id}"`), `${name} links to ${link}`);
    }
  }
});

Deno.test("the policy of every page permits no other host", () => {
  for (const [name, html] of pages) {
    const [, policy] = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(html) ?? [];
    assert.match(policy ?? "", /^default-src 'self'; /, name);
    assert.doesNotMatch(policy!, /\*|https?:/, name);
  }
});

Deno.test("the site is searched and read with the keyboard", () =>
  onSite("", async ({ page }) => {
    const results = page.locator(".VPLocalSearchBox .result");
    // Among the first three results.
    const finds = async (query: string, address: string): Promise<void> => {
      await page.locator(".VPLocalSearchBox input").fill(query);
      await page.locator(`.VPLocalSearchBox li:nth-child(-n+3) .result[href="${address}"]`).waitFor();
    };
    await page.keyboard.press("/");
    await finds("how much memory", "/sizing.html#how-much-memory-and-cpu");
    await finds("alert failing sync", "/operate.html#alerts");
    await finds("explein", "/explain.html#explaining-connections");
    await page.keyboard.press("ArrowDown");
    const second = await results.nth(1).getAttribute("href");
    await page.keyboard.press("Enter");
    await page.waitForURL(`**${second}`);
    await page.keyboard.press("/");
    await page.locator(".VPLocalSearchBox input").fill("zeppelin");
    await page.getByText("No results for").waitFor();
    await page.keyboard.press("Escape");
    await page.locator(".VPLocalSearchBox").waitFor({ state: "detached" });
  }));

Deno.test("the page is dark if the system is", async () => {
  for (const [colorScheme, isDark] of [["dark", true], ["light", false]] as const) {
    await onSite("", async ({ page }) => {
      const [red] = /\d+/.exec(await page.evaluate("getComputedStyle(document.body).backgroundColor"))!;
      assert.equal(Number(red) < 64, isDark, colorScheme);
    }, { colorScheme });
  }
});

Deno.test("on a phone, no page is wider than the screen, and the menu opens and leads to other pages", () =>
  onSite("", async ({ page }) => {
    for (const name of pages.keys()) {
      await page.goto(new URL(`/${name}`, page.url()).href);
      assert.equal(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), true, name);
    }
    await page.goto(new URL("/operate.html", page.url()).href);
    await started(page);
    assert.equal(await page.locator(".VPSidebar.open").count(), 0);
    await page.getByRole("button", { name: "Menu", exact: true }).press("Enter");
    await page.locator(".VPSidebar.open").getByRole("link", { name: "Problems", exact: true }).click();
    await page.waitForURL("**/problems.html");
  }, { viewport: { width: 390, height: 844 } }));
