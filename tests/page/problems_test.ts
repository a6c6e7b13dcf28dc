/** Every problem of a running proxy is on the page with the second update after its cause. */
import assert from "node:assert/strict";
import type { Browser } from "playwright-core";
import { createProcessProblems, type ProblemCode, problemCodes, problemKind } from "../../core/problems/mod.ts";
import { waitFor } from "../chaos/wait.ts";
import { type ApiObject, type FakeApiServer, startFakeApiServer, statusResponse } from "../fakes/api_server.ts";
import { reservePort } from "../fakes/sockets.ts";
import { withWholeProxy } from "../fakes/whole_proxy.ts";
import { visit, withBrowser } from "./browser.ts";
import { manifestsOf, type TestService } from "./cluster.ts";
import { type ProxyUnderTest, withProxy } from "./proxy_under_test.ts";

const WEB: TestService = { at: "default/web", clusterIPs: ["10.96.0.10"], endpoints: [{ address: "10.244.1.11" }] };
const NODE: ApiObject = { kind: "Node", metadata: { name: "node-1" }, status: {} };
const MOST_UPDATES = 2;
const LONGEST_WAIT_MS = 30_000;

/** Waits for a problem in the proxy itself, then asserts that an open page soon shows it with its fix. */
async function assertShown(browser: Browser, url: string, code: ProblemCode, cause: () => unknown): Promise<void> {
  await visit(browser, url, async ({ page, violations }) => {
    await page.getByText("live", { exact: true }).waitFor();
    await cause();
    const isCounted = new RegExp(`code="${code}"[^}]*} [1-9]`);
    const isReported = async () => isCounted.test(await (await fetch(`${url}metrics`)).text());
    await waitFor(`${code} is reported`, LONGEST_WAIT_MS, isReported, 5);
    let updates = 0;
    page.on("response", (response) => updates += Number(response.url().includes("/live")));
    const problem = page.locator(".problems > li", { has: page.getByText(code, { exact: true }) });
    await problem.getByText(problemKind(code).fix.replaceAll("`", "")).waitFor();
    assert.ok(updates <= MOST_UPDATES, `${code} was shown with update ${updates}`);
    assert.deepEqual(violations, []);
  });
}

/** Causes that a worker, or the process around the proxy, reports. */
const REPORTED: Partial<Record<ProblemCode, (proxy: ProxyUnderTest) => void>> = {
  "setup-failed": ({ health }) => health("IPv6", { state: "unfit", reason: "no such table", unsupported: false }),
  "family-unsupported": ({ health }) => health("IPv6", { state: "unfit", reason: "no ip6tables", unsupported: true }),
  "worker-failed": ({ health }) => health("IPv6", { state: "restarting", reason: "it ran out of memory", restarts: 1 }),
};
for (const code of ["sync-failed", "stale-flows-kept", "leftovers-kept"] as const) {
  REPORTED[code] = ({ report }) =>
    report("IPv4", { ok: code !== "sync-failed", problems: [{ code, servicePort: undefined, message: "no" }] });
}
for (const code of ["rules-refused", "not-relayed"] as const) {
  REPORTED[code] = ({ report }) =>
    report("IPv4", { problems: [{ code, servicePort: "default/web:http", message: "no" }] });
}
REPORTED["kernel-setting-failed"] = ({ problems }) =>
  problems("IPv4", "setting", [{ code: "kernel-setting-failed", subject: "net.ipv4.ip_forward", detail: "no" }]);
for (
  const code of [
    "packets-not-flowing",
    "packets-dropped-by-others",
    "canary-unusable",
    "endpoint-unreachable",
    "node-condition-refused",
    "runtime-unreachable",
    "site-lease-refused",
    "site-not-member",
    "site-leader-refused",
    "site-not-served",
    "tool-killed",
    "changes-overdue",
    "connections-not-counted",
    "connections-not-reset",
    "rules-changed-by-others",
  ] as const
) {
  REPORTED[code] = ({ problems }) => problems("IPv4", code, [{ code, subject: code, detail: "no" }]);
}

/** Causes in the manifests. */
const INVALID = { ...WEB, at: "default/bad", spec: { ports: [{ port: 99_999_999 }] } };
const UNBALANCED = { ...WEB, annotations: { "sluice.dev/balance": "nonsense" } };
const NOWHERE = { ...WEB, annotations: { "sluice.dev/node-port-addresses": "nonsense" } };
const TOO_LARGE = {
  ...WEB,
  annotations: { "sluice.dev/balance": "consistent-hash" },
  spec: { externalIPs: ["192.0.2.1", "192.0.2.2"] },
  endpoints: Array.from({ length: 300 }, (_, i) => ({ address: `10.244.${1 + (i >> 7)}.${i & 127}` })),
};
const RIVAL = { ...WEB, at: "default/zebra" };
const MANIFESTS: Partial<Record<ProblemCode, string>> = {
  "object-invalid": manifestsOf([WEB, INVALID]),
  "object-duplicated": manifestsOf([WEB, { ...WEB, clusterIPs: ["10.96.0.11"] }]),
  "frontend-conflict": manifestsOf([WEB, RIVAL]),
  "balance-ignored": manifestsOf([UNBALANCED]),
  "balance-limited": manifestsOf([TOO_LARGE]),
  "node-port-addresses-invalid": manifestsOf([NOWHERE]),
  "file-unreadable": "{",
};

/** Problems of the process, which `sluice run` reports before and while a proxy runs. */
const OF_PROCESS: readonly ProblemCode[] = [
  "open-files-limited",
  "oom-score-refused",
  "control-socket-closed",
  "configuration-invalid",
  "configuration-ignored",
  "restart-needed",
  "api-slow",
  "api-certificate-expired",
  "api-certificate-untrusted",
  "state-not-kept",
  "state-untrusted",
  "telemetry-not-exported",
];

/** Makes the server answer every request with an HTTP status. */
function refuse(server: FakeApiServer, code: number): void {
  server.fault(() => statusResponse(code, "Refused", "refused"));
  server.dropWatches();
}

/** Causes at the API server. */
const AT_SERVER: Partial<Record<ProblemCode, (server: FakeApiServer) => unknown>> = {
  "api-unreachable": (server) => server.close(),
  "api-unauthorized": (server) => refuse(server, 401),
  "api-forbidden": (server) => refuse(server, 403),
  "source-unreachable": (server) => refuse(server, 503),
  "node-deleted": (server) => server.remove(NODE),
};

Deno.test("problems of workers, objects and files are shown", () =>
  withBrowser(async (browser) => {
    for (const [code, cause] of Object.entries(REPORTED)) {
      await withProxy(manifestsOf([WEB]), (proxy) =>
        assertShown(browser, proxy.url, code as ProblemCode, () => cause(proxy)));
    }
    for (const [code, manifests] of Object.entries(MANIFESTS)) {
      await withProxy(manifestsOf([WEB]), (proxy) =>
        assertShown(browser, proxy.url, code as ProblemCode, () =>
          proxy.write(manifests)));
    }
  }));

Deno.test("problems of the process are shown", () =>
  withBrowser(async (browser) => {
    const processProblems = createProcessProblems();
    const args = ["--source", "file:/nonexistent", "--hostname-override", "node-1"];
    await withWholeProxy({ args, processProblems }, async ({ url }) => {
      for (const code of OF_PROCESS) {
        await assertShown(browser, url, code, () =>
          processProblems.report(code, [{ code, subject: code, detail: "no" }]));
        processProblems.report(code, []);
      }
    });
  }));

Deno.test("problems of the source and the node are shown", () =>
  withBrowser(async (browser) => {
    for (const [code, cause] of Object.entries(AT_SERVER)) {
      const server = startFakeApiServer();
      server.apply(NODE);
      await withWholeProxy({ args: ["--master", server.url, "--hostname-override", "node-1"] }, async ({ url }) => {
        await server.watches(3);
        await assertShown(browser, url, code as ProblemCode, () => cause(server));
      });
      if (code !== "api-unreachable") await server.close();
    }
  }));

const WITHOUT_NODE: Partial<Record<ProblemCode, readonly string[]>> = {
  "node-missing": [],
  "pod-cidr-missing": ["--detect-local-mode", "NodeCIDR"],
};

Deno.test("problems that take time are shown", () =>
  withBrowser(async (browser) => {
    const server = startFakeApiServer();
    server.apply(...JSON.parse(manifestsOf([WEB])).items);
    for (const [code, flags] of Object.entries(WITHOUT_NODE)) {
      const args = ["--master", server.url, "--hostname-override", "node-1", ...flags];
      await withWholeProxy({ args }, ({ url }) => assertShown(browser, url, code as ProblemCode, () => {}));
    }
    await server.close();
  }));

Deno.test("ports that cannot be opened, and node ports on no address, are shown", () =>
  withBrowser(async (browser) => {
    const taken = Deno.listen({ hostname: "0.0.0.0", port: 0 });
    const healthCheckNodePort = taken.addr.port;
    const load = {
      ...WEB,
      spec: {
        type: "LoadBalancer",
        externalTrafficPolicy: "Local",
        healthCheckNodePort,
        ports: [{ name: "http", port: 80, protocol: "TCP", nodePort: 30080 }],
      },
    };
    await withProxy(
      manifestsOf([WEB]),
      (proxy) => assertShown(browser, proxy.url, "health-check-port-closed", () => proxy.write(manifestsOf([load]))),
    );
    const primary = ["--nodeport-addresses", "primary"];
    await withProxy(
      manifestsOf([WEB]),
      (proxy) => assertShown(browser, proxy.url, "node-ports-closed", () => proxy.write(manifestsOf([load]))),
      primary,
    );
    const port = reservePort(), holder = Deno.listen({ hostname: "127.0.0.1", port });
    await withProxy(manifestsOf([WEB]), (proxy) => assertShown(browser, proxy.url, "server-not-listening", () => {}), [
      "--healthz-bind-address",
      `127.0.0.1:${port}`,
    ]);
    holder.close();
    taken.close();
  }));

Deno.test("every problem of a running proxy has a test here", () => {
  const tested = new Set([
    ...[REPORTED, MANIFESTS, AT_SERVER, WITHOUT_NODE].flatMap((causes) => Object.keys(causes)),
    ...OF_PROCESS,
    ...["health-check-port-closed", "node-ports-closed", "server-not-listening"],
  ]);
  const raised = problemCodes().filter((code) => problemKind(code).checkOnly === undefined);
  assert.deepEqual(raised.filter((code) => !tested.has(code)), []);
});
