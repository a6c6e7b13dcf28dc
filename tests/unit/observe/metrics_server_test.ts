import assert from "node:assert/strict";
import { startMetricsServer } from "../../../core/observe/mod.ts";
import type { StatusPage } from "../../../core/page/mod.ts";
import { silentLogger } from "../../../platform/log.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { ask, send } from "./http_client.ts";

const shown = (body: string) => ({ status: 200, contentType: "text/html", body } as const);
const PAGE: StatusPage = {
  page: () => Promise.resolve(shown("the page")),
  live: () => Promise.resolve(shown("the news")),
};

async function withServer(
  test: (address: string) => Promise<void>,
  statusPage = () => Promise.resolve(PAGE),
): Promise<void> {
  const stop = new AbortController();
  const server = await startMetricsServer({
    bindAddress: "127.0.0.1:0",
    bindAddressHardFail: true,
    mode: "nftables",
    metrics: { expose: () => Promise.resolve("a 1\n"), contentType: "text/plain; version=0.0.4; charset=utf-8" },
    configuration: () => ({ mode: "nftables", bindAddress: "::" }),
    statusPage,
    clock: createFakeClock(),
    logger: silentLogger,
    signal: stop.signal,
  });
  try {
    await test(server.address()!);
  } finally {
    stop.abort();
  }
}

Deno.test("each path answers with what kube-proxy answers there", () =>
  withServer(async (address) => {
    for (
      const [path, contentType, body] of [
        ["/metrics", "text/plain; version=0.0.4; charset=utf-8", "a 1\n"],
        ["/proxyMode", "text/plain; charset=utf-8", "nftables"],
        ["/healthz", "text/plain; charset=utf-8", "ok"],
        ["/configz", "application/json", '{"kubeproxy.config.k8s.io":{"mode":"nftables","bindAddress":"::"}}'],
      ] as const
    ) {
      const answer = await ask(address, path);
      assert.deepEqual([answer.status, answer.headers.get("Content-Type"), answer.body], [200, contentType, body]);
      assert.equal(answer.headers.get("X-Content-Type-Options"), "nosniff");
    }
  }));

Deno.test("any other path is not found, and told what there is", () =>
  withServer(async (address) => {
    for (const path of ["/page", "/proxymode", "/metrics/x", "/__proto__"]) {
      const { status, body } = await ask(address, path);
      assert.equal(status, 404);
      assert.match(body, /\/configz\n.*\/healthz\n.*\/metrics\n.*\/proxyMode\n/);
    }
  }));

Deno.test("the status page is loaded when it is first asked for, and again where that failed", async () => {
  let loads = 0;
  const load = () => ++loads === 1 ? Promise.reject(new Error("odd")) : Promise.resolve(PAGE);
  await withServer(async (address) => {
    await ask(address, "/metrics");
    assert.equal(loads, 0);
    assert.equal((await ask(address, "/")).status, 500);
    assert.deepEqual([(await ask(address, "/")).body, (await ask(address, "/live?x=y")).body], [
      "the page",
      "the news",
    ]);
    assert.equal(loads, 2);
  }, load);
});

Deno.test("the status page is refused under a foreign name, where the metrics are not", () =>
  withServer(async (address) => {
    const answer = (path: string) => send(address, `GET ${path} HTTP/1.1\r\nHost: evil.example\r\n\r\n`);
    for (const path of ["/", "/live"]) assert.match(await answer(path), /^HTTP\/1\.1 403 Forbidden\r\n/);
    assert.match(await answer("/metrics"), /^HTTP\/1\.1 200 /);
  }));
