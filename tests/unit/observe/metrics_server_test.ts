import assert from "node:assert/strict";
import { startMetricsServer } from "../../../core/observe/mod.ts";
import { silentLogger } from "../../../platform/log.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { ask } from "./http_client.ts";

async function withServer(test: (address: string) => Promise<void>): Promise<void> {
  const stop = new AbortController();
  const server = await startMetricsServer({
    bindAddress: "127.0.0.1:0",
    bindAddressHardFail: true,
    mode: "nftables",
    metrics: { expose: () => Promise.resolve("a 1\n"), contentType: "text/plain; version=0.0.4; charset=utf-8" },
    configuration: () => ({ mode: "nftables", bindAddress: "::" }),
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
    for (const path of ["/", "/proxymode", "/metrics/x", "/__proto__"]) {
      const { status, body } = await ask(address, path);
      assert.equal(status, 404);
      assert.match(body, /\/configz\n.*\/healthz\n.*\/metrics\n.*\/proxyMode\n/);
    }
  }));
