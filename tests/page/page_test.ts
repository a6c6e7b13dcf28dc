/** The status page of a running proxy, in a browser. */
import assert from "node:assert/strict";
import type { Browser, Page } from "playwright-core";
import { DOCUMENTATION } from "../../platform/mod.ts";
import { systemClock } from "../../platform/clock.ts";
import { TIMEOUT_FACTOR } from "../chaos/wait.ts";
import { type Visit, visit, withBrowser } from "./browser.ts";
import { manifestsOf, type TestService } from "./cluster.ts";
import { type ProxyUnderTest, withProxy } from "./proxy_under_test.ts";

const SHOWN_WITHIN_MS = 2_000 * TIMEOUT_FACTOR;

const WEB: TestService = {
  at: "default/web",
  clusterIPs: ["10.96.0.10"],
  endpoints: [
    { address: "10.244.1.11" },
    { address: "10.244.2.12", node: "node-2", conditions: { ready: false } },
  ],
};
const EMPTY: TestService = { at: "default/empty", clusterIPs: ["10.96.0.20"], endpoints: [] };
const DNS: TestService = {
  at: "kube-system/dns",
  clusterIPs: ["10.96.0.53"],
  endpoints: [{ address: "10.244.1.53" }],
};

/** Opens the status page of a proxy with these services, and asserts at the end that there were no violations. */
async function onPage(
  services: readonly TestService[],
  test: (visit: Visit, proxy: ProxyUnderTest, browser: Browser) => Promise<void>,
  options: Parameters<typeof visit>[3] = {},
): Promise<void> {
  await withBrowser((browser) =>
    withProxy(manifestsOf(services), (proxy) =>
      visit(browser, proxy.url, async (opened) => {
        await opened.page.getByText(/\d service port/).first().waitFor();
        await test(opened, proxy, browser);
        assert.deepEqual(opened.violations, []);
      }, options))
  );
}

/** Asserts that the page shows a text within two seconds. */
async function assertShownInTime(page: Page, text: string | RegExp, since = systemClock.monotonic()): Promise<void> {
  await page.getByText(text).first().waitFor();
  const tookMs = systemClock.monotonic() - since;
  assert.ok(tookMs <= SHOWN_WITHIN_MS, `${text} appeared after ${Math.round(tookMs)} ms`);
}

const names = (page: Page) => page.locator(".service .name").allTextContents();
const trimmed = (names: readonly string[]) => names.map((name) => name.trim());

Deno.test("the page shows a change within two seconds and keeps details open", () =>
  onPage([WEB, EMPTY], async ({ page }, proxy) => {
    await page.getByText("1 / 2").waitFor();
    await page.locator(".service", { hasText: "web:http" }).locator("summary").click();
    await page.getByText("10.244.2.12:8080").waitFor();
    assert.match(await page.locator("tr.out").innerText(), /out\s+10\.244\.2\.12:8080\s+node-2\s+zone-a\s+not ready/);
    assert.match(await page.locator("tr.in").innerText(), /in\s+10\.244\.1\.11:8080\s+node-1 this node/);

    const since = systemClock.monotonic();
    proxy.write(manifestsOf([{ ...WEB, endpoints: [...WEB.endpoints, { address: "10.244.1.13" }] }, EMPTY, DNS]));
    await assertShownInTime(page, "10.244.1.13:8080", since);
    await assertShownInTime(page, /^3 service ports$/, since);
    assert.deepEqual(trimmed(await names(page)), ["default/empty:http", "default/web:http", "kube-system/dns:http"]);
    await page.locator(".events li", { hasText: "default/web 1 → 2 endpoints, in effect after" }).waitFor();
    assert.equal(await page.locator(".service[open]").count(), 1);
    await page.getByText("all in sync").waitFor();
  }));

Deno.test("search filters services as the user types and updates the URL, and a checkbox shows only services that need attention", () =>
  onPage([WEB, EMPTY, DNS], async ({ page }, proxy) => {
    await page.getByPlaceholder("Search namespace/name").fill("sys");
    await page.getByText("1 service port", { exact: true }).waitFor();
    assert.deepEqual(trimmed(await names(page)), ["kube-system/dns:http"]);
    assert.equal(new URL(page.url()).search, "?q=sys");
    await page.getByPlaceholder("Search namespace/name").fill("<script>");
    await page.getByText("No service with “<script>” in its name.").waitFor();
    await page.getByPlaceholder("Search namespace/name").fill("");
    await page.getByText("3 service ports", { exact: true }).waitFor();
    assert.equal(page.url(), proxy.url);
    await page.getByLabel("needing attention").check();
    await page.getByText("1 service port", { exact: true }).waitFor();
    assert.deepEqual(trimmed(await names(page)), ["default/empty:http"]);
    await page.locator(".service summary").click();
    await page.getByText("Traffic to the cluster IP is rejected: no usable endpoint.").waitFor();
  }));

Deno.test("ten thousand services are paginated", () => {
  const many = Array.from({ length: 10_000 }, (_, i): TestService => ({
    at: `many/s-${String(i).padStart(5, "0")}`,
    clusterIPs: [`10.100.${i >> 8}.${i & 255}`],
    endpoints: [],
  }));
  return onPage(many, async ({ page }) => {
    await page.getByText("10,000 service ports", { exact: true }).waitFor();
    assert.equal(await page.locator(".service").count(), 25);
    await page.getByRole("link", { name: "Next" }).click();
    await page.getByText("many/s-00025:http").waitFor();
    assert.equal(new URL(page.url()).search, "?page=2");
    assert.ok((await page.content()).length < 100_000);
  });
});

Deno.test("the page shows a failing family and its recovery", () =>
  onPage([WEB], async ({ page }, proxy) => {
    await page.getByText("all in sync").waitFor();
    const problem = "nft refused <b>everything</b>: No space left";
    proxy.report("IPv6", { ok: false, problems: [{ code: "sync-failed", servicePort: undefined, message: problem }] });
    await assertShownInTime(page, /IPv6: syncs have been failing for \d+/);
    const card = page.locator('[data-family="IPv6"]');
    assert.match(await card.innerText(), /syncs have been failing/);
    assert.equal(await page.getByText(problem).count(), 1, "the error is shown once");
    assert.equal(await card.locator("g.failed").count(), 1);
    assert.match(await page.locator('[data-part="problems"]').innerText(), /IPv6[^]*\s+nft refused/);
    const link = page.getByRole("link", { name: "sync-failed", exact: true });
    assert.equal(await link.getAttribute("href"), `${DOCUMENTATION}/problems.md#sync-failed`);

    proxy.health("IPv6", { state: "restarting", reason: "it did not answer for 60 s", restarts: 2 });
    await assertShownInTime(page, "IPv6: worker restarting (2)");
    proxy.health("IPv6", { state: "ready" });
    proxy.report("IPv6", {});
    await assertShownInTime(page, "all in sync");
  }));

Deno.test("without JavaScript the page shows the same content, and search submits a form", () =>
  onPage([WEB, EMPTY, DNS], async ({ page }) => {
    await page.getByText("reload to update").waitFor();
    await page.getByText("all in sync").waitFor();
    assert.equal(await page.locator(".chart").count(), 2);
    await page.getByPlaceholder("Search namespace/name").fill("web");
    await page.getByRole("button", { name: "Search" }).click();
    assert.deepEqual(trimmed(await names(page)), ["default/web:http"]);
    await page.locator(".service summary").click();
    await page.getByText("10.244.2.12:8080").waitFor();
  }, { javaScriptEnabled: false }));

Deno.test("when the proxy stops answering, the page says so and keeps the last content", () =>
  withBrowser(async (browser) => {
    const context = await browser.newContext();
    const page = await context.newPage();
    await withProxy(manifestsOf([WEB]), async (proxy) => {
      await page.goto(proxy.url);
      await page.getByText("live", { exact: true }).waitFor();
      await page.getByText("default/web:http").first().waitFor();
    });
    await page.getByText("no answer from the proxy").waitFor();
    assert.match(await page.locator("main").innerText(), /default\/web:http/);
  }));

/** The elements that are wider than the screen, or whose content is scrolled sideways. */
const WIDER = `[...document.querySelectorAll("body, body *")].filter((one) =>
  one.getBoundingClientRect().right > innerWidth + 1 ||
  one.scrollWidth > one.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(one).overflowX)
).map((one) => one.outerHTML.slice(0, 200))`;

Deno.test("on a phone long names, addresses and details wrap, and nothing is scrolled sideways", () => {
  const at = `${"n".repeat(63)}/${"s".repeat(63)}`, name = `${at}:${"p".repeat(15)}`;
  const service: TestService = {
    at,
    portName: "p".repeat(15),
    clusterIPs: ["2001:db8:ffff:eeee:dddd:cccc:bbbb:aaaa"],
    spec: { type: "LoadBalancer", externalIPs: ["2001:db8:ffff:eeee:dddd:cccc:bbbb:1111"] },
    endpoints: [
      { address: "2001:db8:1234:5678:9abc:def0:1234:5678", node: "k".repeat(253), zone: "z".repeat(63) },
      { address: "2001:db8:1234:5678:9abc:def0:1234:5679", conditions: { ready: false } },
    ],
  };
  return onPage([service], async ({ page }, proxy) => {
    proxy.report("IPv6", {
      problems: [
        { code: "sync-failed", servicePort: undefined, message: "x".repeat(3000) },
        { code: "rules-refused", servicePort: name, message: "y".repeat(3000) },
      ],
    });
    await page.getByText("xxx").first().waitFor();
    await page.locator(".service summary").click();
    await page.getByPlaceholder("10.96.0.10:80 or namespace/name").fill(at);
    await page.getByPlaceholder("10.96.0.10:80 or namespace/name").press("Enter");
    await page.locator('[data-part="explanation"]').getByText("goes to").first().waitFor();
    // The proxy of this test writes no rules, which an explanation shows.
    await page.locator(".explanation").first().evaluate(
      "(one) => one.innerHTML += `<pre>${'rule '.repeat(200)}</pre>`",
    );
    assert.deepEqual(await page.evaluate(WIDER), []);
    const heading = await page.locator('[data-family="IPv6"] h2').boundingBox();
    assert.ok(heading!.height < 30, `a short name on several lines, ${heading!.height} px high`);
    assert.match(await page.locator(".service tr.out").innerText(), /5679\]:8080/);
  }, { viewport: { width: 360, height: 740 } });
});

Deno.test("a service that the kernel refuses is red, first, and counted until it is accepted", () =>
  onPage([DNS, WEB], async ({ page }, proxy) => {
    await page.getByText("all in sync").waitFor();
    const problems = [{
      code: "rules-refused",
      servicePort: "kube-system/dns:http",
      message: "nft: too long",
    }] as const;
    proxy.report("IPv4", { problems });
    const refused = page.locator(".service.bad");
    await refused.getByText("the kernel refuses its rules: nft: too long").waitFor();
    await page.getByText("IPv4: in sync, except for 1 refused service port").waitFor();
    await page.getByText("1 service port refused by the kernel").waitFor();
    assert.deepEqual(trimmed(await names(page)), ["kube-system/dns:http", "default/web:http"]);
    proxy.report("IPv4", {});
    await refused.waitFor({ state: "detached" });
    await page.getByText("all in sync", { exact: true }).waitFor();
  }));

Deno.test("a change that is not in the kernel yet says so", () =>
  onPage([WEB], async ({ page }, proxy) => {
    proxy.hold("IPv4");
    proxy.write(manifestsOf([{ ...WEB, endpoints: [] }]));
    await page.locator(".service.waiting").getByText("Not in effect yet").waitFor();
    await page.locator(".events .waiting", { hasText: "default/web 1 → 0 endpoints, not in effect yet" }).waitFor();
    proxy.release("IPv4");
    await page.locator(".service.warning").getByText("no usable endpoint").waitFor();
    await page.locator(".events li", { hasText: "1 → 0 endpoints, in effect after" }).waitFor();
  }));

Deno.test("the explain box explains an address and a name, and stays up to date", () =>
  onPage([WEB, EMPTY], async ({ page }, proxy) => {
    const box = page.getByPlaceholder("10.96.0.10:80 or namespace/name");
    await box.fill("10.96.0.10:80");
    await box.press("Enter");
    const explained = page.locator('[data-part="explanation"]');
    await explained.getByText("goes to 10.244.1.11:8080").first().waitFor();
    assert.equal(new URL(page.url()).search, "?to=10.96.0.10%3A80");
    proxy.write(manifestsOf([{ ...WEB, endpoints: [] }, EMPTY]));
    await explained.getByText("is rejected: no usable endpoint").first().waitFor();
    await box.fill("default/emty");
    await box.press("Enter");
    await explained.getByText("default/empty").waitFor();
    await page.locator(".service", { hasText: "empty" }).locator("summary").click();
    await page.getByRole("link", { name: "Explain a connection to 10.96.0.20:80" }).click();
    await explained.getByText("of default/empty:http").waitFor();
    assert.equal(await box.inputValue(), "10.96.0.20:80");
  }));

Deno.test("a namespace can be chosen with the keyboard", () =>
  onPage([WEB, EMPTY, DNS], async ({ page }) => {
    await page.getByLabel("Namespace").selectOption("kube-system");
    await page.getByText("1 service port", { exact: true }).waitFor();
    assert.deepEqual(trimmed(await names(page)), ["kube-system/dns:http"]);
    await page.locator("h1").click();
    await page.keyboard.press("/");
    await page.keyboard.type("web");
    await page.getByText("No service with “web” in its name in namespace kube-system.").waitFor();
  }));

Deno.test("without JavaScript the explain box submits a form and keeps the search", () =>
  onPage([WEB, DNS], async ({ page }) => {
    await page.getByPlaceholder("Search namespace/name").fill("web");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByPlaceholder("10.96.0.10:80 or namespace/name").fill("default/web");
    await page.getByPlaceholder("from any client").fill("outside");
    await page.getByRole("button", { name: "Explain" }).click();
    await page.getByText("goes to 10.244.1.11:8080").waitFor();
    assert.equal(await page.locator(".outcomes li").count(), 1);
    assert.deepEqual(trimmed(await names(page)), ["default/web:http"]);
    await page.locator(".events li", { hasText: "2 service ports read from the cluster" }).waitFor();
  }, { javaScriptEnabled: false }));
