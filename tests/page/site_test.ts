/** The documentation site in a browser. */
import assert from "node:assert/strict";
import type { BrowserContextOptions } from "playwright-core";
import { startBrowser, type Visit, visit } from "./browser.ts";

const ROOT = new URL("../../", import.meta.url);
const TYPES: Readonly<Record<string, string>> = {
  html: "text/html",
  css: "text/css",
  js: "text/javascript",
  json: "application/json",
  svg: "image/svg+xml",
  png: "image/png",
};

/** Builds the site with its task. */
async function build(): Promise<void> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), { args: ["task", "site"], cwd: ROOT }).output();
  assert(success, new TextDecoder().decode(stderr));
}

async function serveFile(request: Request): Promise<Response> {
  const path = new URL(request.url).pathname;
  try {
    const body = await Deno.readFile(new URL(`dist/site${path}`, ROOT));
    return new Response(body, { headers: { "content-type": TYPES[path.split(".").at(-1)!] ?? "text/plain" } });
  } catch {
    return new Response("not found", { status: 404 });
  }
}

/** Opens a page of the site, and asserts at the end that there were no violations. */
async function onSite(
  path: string,
  test: (visit: Visit) => Promise<void>,
  options?: BrowserContextOptions,
): Promise<void> {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, serveFile);
  const browser = await startBrowser();
  try {
    await visit(browser, `http://127.0.0.1:${server.addr.port}/${path}`, async (opened) => {
      await test(opened);
      assert.deepEqual(opened.violations, []);
    }, options);
  } finally {
    await browser.close();
    await server.shutdown();
  }
}

await build();

Deno.test("the site is searched and read with the keyboard", () =>
  onSite("index.html", async ({ page }) => {
    await page.keyboard.press("/");
    await page.keyboard.type("explain");
    await page.locator("#result-0[aria-selected=true]").waitFor();
    await page.keyboard.press("ArrowDown");
    const second = await page.locator("#result-1[aria-selected=true] a").getAttribute("href");
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/${second}`);
    await page.keyboard.press("/");
    await page.keyboard.type("zeppelin");
    await page.getByText("Nothing contains “zeppelin”.").waitFor();
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("#results").isVisible(), false);
  }));

Deno.test("on a phone, no page is wider than the screen, and the menu opens and leads to other pages", () =>
  onSite("index.html", async ({ page }) => {
    const names = await page.locator("nav a").evaluateAll((links) => links.map((link) => link.getAttribute("href")!));
    assert(names.length > 10);
    for (const name of names) {
      await page.goto(new URL(name, page.url()).href);
      assert.equal(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), true, name);
    }
    assert.equal(await page.locator("nav").isVisible(), false);
    await page.getByRole("button", { name: "Menu" }).press("Enter");
    await page.getByRole("link", { name: "Problems", exact: true }).click();
    await page.waitForURL("**/problems.html");
  }, { viewport: { width: 390, height: 844 } }));
