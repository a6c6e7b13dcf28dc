/**
 * Takes screenshots of the status page: `deno task screenshots` writes docs/status-light.png and docs/status-dark.png, and
 * docs/traffic-light.png and docs/traffic-dark.png of services with traffic. Uses Chromium and the font Inter if it is
 * installed.
 */
import { sleep, systemClock } from "../../platform/clock.ts";
import { startBrowser, visit } from "./browser.ts";
import { manifestsOf, type TestEndpoint, type TestService } from "./cluster.ts";
import { type ApiObject, startFakeApiServer } from "../fakes/api_server.ts";
import { withWholeProxy } from "../fakes/whole_proxy.ts";
import { servicePortKey, type TrafficReading } from "../../core/model/mod.ts";
import { FAMILIES, type Family, joinHostPort } from "../../platform/mod.ts";

const NAMES: Readonly<Record<string, readonly string[]>> = {
  auth: ["api", "sessions"],
  default: ["kubernetes"],
  "kube-system": ["dns", "metrics-server"],
  media: ["images", "transcode", "uploads"],
  monitoring: ["alertmanager", "grafana", "prometheus"],
  shop: ["basket", "catalogue", "checkout", "search", "stock", "web"],
};
const NODES = ["node-1", "node-2", "node-3"];

const ADDRESSES = {
  addresses: [{ type: "InternalIP", address: "192.168.10.21" }, { type: "InternalIP", address: "fd00:192::21" }],
};

const NUMBER = Object.values(NAMES).flat().length;

/** The number of services that change in each round before the screenshot. */
const ROUNDS = [1, 1, 2, 1, 4, 1, 1, 3, 1, 9, 2, 1, 1, 1, 5, 1, 2, 1, 14, 1, 1, 2, 1, 1, 3, 1, NUMBER];

function services(): TestService[] {
  return Object.entries(NAMES).flatMap(([namespace, names]) => names.map((name) => `${namespace}/${name}`))
    .map((at, i) => ({
      at,
      clusterIPs: [`10.96.${i >> 2}.${10 + i * 7}`, `fd00:10:96::${(16 + i).toString(16)}`],
      port: at === "default/kubernetes" ? 443 : 80,
      portName: at === "default/kubernetes" ? "https" : "http",
      spec: { ipFamilies: ["IPv4", "IPv6"], ipFamilyPolicy: "PreferDualStack", ...specOf(at) },
      endpoints: endpointsOf(at, i),
    }));
}

function specOf(at: string): Readonly<Record<string, unknown>> {
  if (at === "auth/api") {
    return { type: "NodePort", ports: [{ name: "http", port: 80, protocol: "TCP", nodePort: 30443 }] };
  }
  return at === "auth/sessions" ? { sessionAffinity: "ClientIP" } : {};
}

function endpointsOf(at: string, i: number): TestEndpoint[] {
  if (at === "media/transcode") return [];
  const count = 2 + i % 4;
  return Array.from({ length: count }, (_, j) => {
    const place = { node: NODES[(i + j) % 3]!, zone: `zone-${"abc"[(i + j) % 3]}` };
    const conditions = conditionsOf(at, j);
    return [
      { address: `10.244.${(i + j) % 3}.${10 + i * 5 + j}`, conditions, ...place },
      { address: `fd00:10:244:${(i + j) % 3}::${(10 + i * 5 + j).toString(16)}`, conditions, ...place },
    ];
  }).flat();
}

function conditionsOf(at: string, j: number): Readonly<Record<string, boolean>> {
  if (at === "auth/sessions" && j === 1) return { ready: false, serving: true, terminating: true };
  if (at === "auth/sessions" && j === 2) return { ready: false, serving: false, terminating: false };
  return { ready: true, serving: true, terminating: false };
}

/** The traffic of a few seconds: much to some services, little to most, and failures. */
function reading(family: Family): TrafficReading {
  const mark = family === "IPv4" ? "." : ":";
  const rows = services().flatMap(({ at, portName, endpoints }, i) =>
    endpoints.filter(({ address, conditions }) => address.includes(mark) && conditions?.ready !== false)
      .map(({ address }, j) => ({
        port: servicePortKey(`${at}:${portName}`, "tcp"),
        endpoint: joinHostPort(address, 8080),
        connections: [1, 9, 42, 3, 260][i % 5]! * (mark === "." ? 6 - j : 1),
      }))
  );
  return {
    durationMs: 4,
    ports: rows.map(({ port }) => port),
    endpoints: rows.map(({ endpoint }) => endpoint),
    counts: Float64Array.from(rows.flatMap(({ connections: n }) => [n, n * 14, n * 9_700])),
    failures: [{ port: servicePortKey("shop/basket:http", "tcp"), reason: "unanswered", packets: 3 }],
  };
}

/** The API objects of a cluster. */
function objectsOf(cluster: readonly TestService[]): ApiObject[] {
  return JSON.parse(manifestsOf(cluster)).items;
}

const browser = await startBrowser();
const server = startFakeApiServer();
server.apply(
  {
    kind: "Node",
    metadata: { name: "node-1", labels: { "topology.kubernetes.io/zone": "zone-a" } },
    status: ADDRESSES,
  },
  ...objectsOf(services()),
);
const minSyncPeriod = ["--proxy-mode", "iptables", "--iptables-min-sync-period", "0s"];
const args = ["--master", server.url, "--hostname-override", "node-1", ...minSyncPeriod];
await withWholeProxy({ args }, async ({ url }) => {
  await server.watches(3);
  for (const [round, size] of ROUNDS.entries()) {
    const changed = services().flatMap((service, i): TestService[] => {
      if ((i + round) % NUMBER >= size) return [];
      const place = { node: "node-2", zone: "zone-b" };
      const extra = round === ROUNDS.length - 1 ? [] : [
        { address: `10.244.9.${round + 1}`, ...place },
        { address: `fd00:10:244:9::${round + 1}`, ...place },
      ];
      const changedAtMs = systemClock.now() - 3 * ((i * 7 + round) % 11);
      return [{ ...service, changedAtMs, endpoints: [...service.endpoints, ...extra] }];
    });
    server.apply(...objectsOf(changed));
    await sleep(systemClock, 120);
  }
  await sleep(systemClock, 500);
  for (const colorScheme of ["light", "dark"] as const) {
    await visit(browser, url, async ({ page }) => {
      await page.getByText("live", { exact: true }).waitFor();
      await page.locator(".service", { hasText: "auth/sessions:http" }).first().locator("summary").click();
      await page.mouse.move(0, 0);
      await page.evaluate("scrollTo(0, 0)");
      await page.screenshot({ path: new URL(`../../docs/status-${colorScheme}.png`, import.meta.url).pathname });
    }, { colorScheme, viewport: { width: 1280, height: 1100 } });
  }
});
await withWholeProxy({
  args: ["--master", server.url, "--hostname-override", "node-1", "--proxy-mode", "nftables", "--traffic-metrics"],
}, async ({ url, traffic }) => {
  await server.watches(3);
  // A page asks the workers for a reading if the last one is a second old.
  for (let readings = 0; readings < 3; readings++) {
    await sleep(systemClock, 1500);
    for (const family of FAMILIES) traffic(family, reading(family));
    await (await fetch(url)).text();
  }
  for (const colorScheme of ["light", "dark"] as const) {
    await visit(browser, `${url}?ns=shop`, async ({ page }) => {
      await page.getByText("live", { exact: true }).waitFor();
      const service = page.locator(".service", { hasText: "shop/basket:http" }).first();
      await service.locator("summary").click();
      await page.mouse.move(0, 0);
      await page.evaluate("scrollBy(0, document.querySelector('.service').getBoundingClientRect().top - 110)");
      await page.screenshot({ path: new URL(`../../docs/traffic-${colorScheme}.png`, import.meta.url).pathname });
    }, { colorScheme, viewport: { width: 1280, height: 620 } });
  }
});
await server.close();
await browser.close();
