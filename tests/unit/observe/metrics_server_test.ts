import assert from "node:assert/strict";
import { systemClock } from "../../../platform/clock.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { STATUS_PAGE, withMetricsServer as withServer } from "../../fakes/metrics_server.ts";
import { ask, send } from "./http_client.ts";

Deno.test("each path answers as kube-proxy's does", () =>
  withServer(async (address) => {
    for (
      const [path, contentType, body] of [
        ["/metrics", "text/plain; version=0.0.4; charset=utf-8", "a 1\n"],
        ["/proxyMode", "text/plain; charset=utf-8", "nftables"],
        ["/healthz", "text/plain; charset=utf-8", "ok"],
        ["/healthz?verbose", "text/plain; charset=utf-8", "[+]ping ok\nhealthz check passed\n"],
        ["/healthz/ping", "text/plain; charset=utf-8", "ok"],
        ["/configz", "application/json", '{"kubeproxy.config.k8s.io":{"mode":"nftables","bindAddress":"::"}}'],
      ] as const
    ) {
      for (const method of ["GET", "POST"]) {
        const answer = await ask(address, path, method);
        assert.deepEqual([answer.status, answer.headers.get("Content-Type"), answer.body], [200, contentType, body]);
        assert.equal(answer.headers.get("X-Content-Type-Options"), "nosniff");
        assert.equal(answer.headers.get("Server"), null);
        const isScrape = path.startsWith("/metrics");
        assert.equal(/^\d+$/.test(answer.headers.get("Process-Start-Time-Unix") ?? ""), isScrape, path);
      }
    }
  }));

Deno.test("other paths are not found, and the answer lists the available ones", () =>
  withServer(async (address) => {
    for (const path of ["/page", "/proxymode", "/metrics/x", "/__proto__"]) {
      const { status, body } = await ask(address, path);
      assert.equal(status, 404);
      assert.match(
        body,
        /\/configz\n.*\/flagz\n.*\/healthz\n.*\/healthz\/ping\n.*\/metrics\n.*\/metrics\/slis\n.*\/proxyMode\n.*\/statusz\n/,
      );
    }
  }));

Deno.test("the status page is loaded on the first request, and again after a failure", async () => {
  let loads = 0;
  const load = () => ++loads === 1 ? Promise.reject(new Error("odd")) : Promise.resolve(STATUS_PAGE);
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

Deno.test("the status page rejects foreign host names; metrics do not", () =>
  withServer(async (address) => {
    const answer = (path: string) => send(address, `GET ${path} HTTP/1.1\r\nHost: evil.example\r\n\r\n`);
    for (const path of ["/", "/live"]) assert.match(await answer(path), /^HTTP\/1\.1 403 Forbidden\r\n/);
    assert.match(await answer("/metrics"), /^HTTP\/1\.1 200 /);
  }));

Deno.test("/metrics/slis counts health check requests and is reset by DELETE", () =>
  withServer(async (address) => {
    const samples = async () => {
      const { body } = await ask(address, "/metrics/slis");
      return body.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    };
    assert.deepEqual(await samples(), []);
    await ask(address, "/healthz");
    await ask(address, "/healthz");
    assert.deepEqual(await samples(), [
      'kubernetes_healthcheck{name="ping",type="healthz"} 1',
      'kubernetes_healthchecks_total{name="ping",type="healthz",status="success"} 2',
    ]);
    const reset = await ask(address, "/metrics/slis", "DELETE");
    assert.deepEqual([reset.status, reset.body], [200, "metrics reset\n"]);
    assert.deepEqual(await samples(), []);
  }));

const WARNING =
  "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees " +
  "and is for debugging purposes only.";
const NOW = Date.UTC(2025, 10, 2, 12, 10, 9);

Deno.test("/flagz and /statusz answer with text that starts like kube-proxy's", () =>
  withServer(
    async (address) => {
      const flagz = await ask(address, "/flagz");
      assert.deepEqual([flagz.status, flagz.headers.get("Content-Type")], [200, "text/plain; charset=utf-8"]);
      assert.equal(flagz.body, `\nkube-proxy flagz\n${WARNING}\ncleanup: false\nproxy-mode: nftables\n`);
      const statusz = await ask(address, "/statusz");
      assert.equal(
        statusz.body.replace(/deno\S+/, "deno").replace(/1\.37\.\d+/, "1.37.x"),
        [
          `\nkube-proxy statusz\n${WARNING}\n`,
          "Started: Sat Nov  1 09:08:07 UTC 2025",
          "Up: 27 hr 02 min 02 sec",
          "Go version: deno",
          "Binary version: 1.37.x",
          "Emulation version: 1.37",
          "Paths: /configz /flagz /healthz /metrics /proxyMode\n",
        ].join("\n"),
      );
    },
    undefined,
    { clock: createFakeClock(NOW) },
  ));

const json = (version: string, kind: string) => `application/json;v=${version};g=config.k8s.io;as=${kind}`;

Deno.test("/flagz and /statusz choose a format as kube-proxy does", () =>
  withServer(
    async (address) => {
      const text = "text/plain; charset=utf-8", statusz = json("v1beta1", "Statusz");
      const answered = "application/json;g=config.k8s.io;v=v1beta1;as=Statusz";
      const table: readonly [string, string, number, string][] = [
        ["/flagz", json("v1beta1", "Flagz"), 200, answered.replace("Statusz", "Flagz")],
        ["/flagz", json("v1beta1", "Statusz"), 406, "application/json"],
        ["/flagz", "application/json", 406, "application/json"],
        ["/flagz", "application/*", 406, "application/json"],
        ["/flagz", "application/json;v=v1beta1;g=config.k8s.io", 406, "application/json"],
        ["/flagz", "application/xml", 406, "application/json"],
        ["/flagz", "garbage", 406, "application/json"],
        ["/flagz", "*/*", 200, text],
        ["/flagz", "text/*", 200, text],
        ["/flagz", "text/plain;charset=latin1", 200, text],
        ["/flagz", "text/plain;q=0", 200, text],
        ["/flagz", "text/plain;v=v1beta1", 406, "application/json"],
        ["/flagz", `${json("foo", "Flagz")},*/*`, 200, text],
        ["/statusz", statusz, 200, answered],
        ["/statusz", `text/plain;q=0.5, ${statusz}`, 200, answered],
        ["/statusz", `${statusz};q=0.5, text/plain`, 200, text],
        ["/statusz", `${statusz};foo=bar`, 200, answered],
        ["/statusz", statusz.replace("application/json", "*/*"), 200, answered],
        ["/statusz", statusz.replace("json", "*"), 200, answered],
        ["/statusz", statusz.replace("json", "yaml"), 200, answered.replace("json", "yaml")],
      ];
      for (const [path, accept, status, contentType] of table) {
        const answer = await ask(address, path, "GET", accept);
        assert.deepEqual(
          [answer.status, answer.headers.get("Content-Type")],
          [status, contentType],
          `${path} ${accept}`,
        );
        assert.equal(answer.headers.get("Warning"), null);
      }
    },
    undefined,
    { clock: systemClock },
  ));

Deno.test("/flagz and /statusz answer in the requested format", () =>
  withServer(
    async (address) => {
      const refused = JSON.parse((await ask(address, "/flagz", "GET", "application/json")).body);
      assert.match(refused.message, /^only the following media types are accepted: text\/plain, application\/json;g=/);
      assert.deepEqual({ ...refused, message: "" }, {
        ...{ kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message: "" },
        ...{ reason: "NotAcceptable", code: 406 },
      });
      const yaml = await ask(address, "/flagz", "GET", json("v1beta1", "Flagz").replace("json", "yaml"));
      assert.equal(
        yaml.body,
        'apiVersion: config.k8s.io/v1beta1\nflags:\n  cleanup: "false"\n  proxy-mode: nftables\nkind: Flagz\n' +
          "metadata:\n  name: kube-proxy\n",
      );
      const flagz = await ask(address, "/flagz", "GET", json("v1beta1", "Flagz"));
      assert.deepEqual(JSON.parse(flagz.body), {
        kind: "Flagz",
        apiVersion: "config.k8s.io/v1beta1",
        metadata: { name: "kube-proxy" },
        flags: { cleanup: "false", "proxy-mode": "nftables" },
      });
      const old = await ask(address, "/statusz", "GET", `${json("v1alpha1", "Statusz")},${json("v1beta1", "Statusz")}`);
      assert.match(old.headers.get("Warning")!, /^299 - "This version of the statusz endpoint is deprecated/);
      const { goVersion, binaryVersion, ...rest } = JSON.parse(old.body);
      assert.match(`${goVersion} ${binaryVersion}`, /^deno\S+ 1\.37\.\d+$/);
      assert.deepEqual(rest, {
        kind: "Statusz",
        apiVersion: "config.k8s.io/v1alpha1",
        metadata: { name: "kube-proxy" },
        startTime: "2025-11-01T09:08:07Z",
        uptimeSeconds: 97_322,
        emulationVersion: "1.37",
        paths: ["/configz", "/flagz", "/healthz", "/metrics", "/proxyMode"],
      });
    },
    undefined,
    { clock: createFakeClock(NOW) },
  ));

Deno.test("/flagz and /statusz are not found when disabled", () =>
  withServer(
    async (address) => {
      for (const path of ["/flagz", "/statusz"]) assert.equal((await ask(address, path)).status, 404);
    },
    undefined,
    { flags: undefined, startedAtMs: undefined },
  ));
