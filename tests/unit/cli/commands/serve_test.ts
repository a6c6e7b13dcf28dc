/** serve and check --serve with real ports. */
import assert from "node:assert/strict";
import { systemClock } from "../../../../platform/clock.ts";
import { createCertificateAuthority } from "../../../fakes/certificates.ts";
import { connectKpngClient } from "../../../fakes/kpng.ts";
import { startFakeApiServer } from "../../../fakes/api_server.ts";
import { isAnsweredTo, reservePort } from "../../../fakes/sockets.ts";
import { createGrpcSource } from "../../../../sources/grpc/mod.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { METHODS, WATCH_REQUEST } from "../../../../kpng/messages/messages.ts";
import { startFakeCollector } from "../../../fakes/otlp_collector.ts";
import { invoke } from "./invoke.ts";
import { until } from "../../../fakes/wait.ts";

const SERVICE = `apiVersion: v1
kind: Service
metadata: { name: web, namespace: default }
spec: { clusterIP: 10.0.0.1, ports: [{ port: 80 }] }
`;

/** The flags of a server with a source of one service, and its ports. */
async function withFlags(
  test: (
    flags: readonly string[],
    ports: { grpc: number; health: number; metrics: number },
    folder: string,
  ) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  Deno.writeTextFileSync(`${folder}/web.yaml`, SERVICE);
  const ports = { grpc: reservePort(), health: reservePort(), metrics: reservePort() };
  const flags = [
    ...["--source", `file:${folder}/web.yaml`, "--listen", `tcp://127.0.0.1:${ports.grpc}`],
    ...["--healthz-bind-address", `127.0.0.1:${ports.health}`],
    ...["--metrics-bind-address", `127.0.0.1:${ports.metrics}`],
  ];
  try {
    await test(flags, ports, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function get(port: number, path: string): Promise<{ status: number; body: string }> {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`);
  return { status: answer.status, body: await answer.text() };
}

/** Waits until a server answers with this status. Throws if it ends before. */
async function answers(serving: Promise<unknown>, port: number, path: string, status: number): Promise<void> {
  const ended = serving.then(() => {
    throw new Error("serve has ended");
  });
  let hasEnded = false;
  ended.catch(() => hasEnded = true);
  const answering = until(async () => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined);
    await answer?.body?.cancel();
    return hasEnded || answer?.status === status;
  });
  await Promise.race([answering, ended]);
}

Deno.test("serve answers probes and scrapes, counts its watchers, and ends cleanly", async () => {
  await withFlags(async (flags, ports) => {
    const stop = new AbortController();
    const serving = invoke(["serve", ...flags], { signal: stop.signal });
    await answers(serving, ports.health, "/readyz", 200);
    const client = connectKpngClient(ports.grpc, METHODS.local);
    await client.round(WATCH_REQUEST.encode({ nodeName: "node-a" }));
    // A worker counts a round after it has written its end.
    let body = "";
    await until(async () => {
      ({ body } = await get(ports.metrics, "/metrics"));
      return /^sluice_serve_rounds_total\{scope="local"\} 1$/m.test(body);
    });
    assert.match(body, /^sluice_serve_watchers\{scope="local"\} 1$/m);
    assert.match(body, /^sluice_serve_source_ready 1$/m);
    assert.match(body, /^sluice_serve_source_last_event_timestamp_seconds \d+/m);
    assert.doesNotMatch(body, /^sluice_source_connected/m, "files are no server");
    stop.abort();
    const { status, log } = await serving;
    assert.equal(status, 0);
    assert.match(log, /stopped serving/);
    client.close();
    await assert.rejects(get(ports.health, "/livez"));
  });
});

Deno.test("as many workers write to the watchers as the flag says", async () => {
  const original = globalThis.Worker;
  for (const count of [0, 2]) {
    let started = 0;
    globalThis.Worker = class extends original {
      constructor(...args: ConstructorParameters<typeof original>) {
        super(...args);
        started++;
      }
    };
    const stop = new AbortController();
    try {
      await withFlags(async (flags, ports) => {
        const serving = invoke(["serve", ...flags, `--serve-workers=${count}`], { signal: stop.signal });
        await answers(serving, ports.health, "/readyz", 200);
        stop.abort();
        await serving;
      });
    } finally {
      stop.abort();
      globalThis.Worker = original;
    }
    assert.equal(started, count);
  }
});

Deno.test("a server exports its metrics where the environment says, at the latest at its end", async () => {
  const collector = startFakeCollector(), stop = new AbortController();
  Deno.env.set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url);
  try {
    await withFlags(async (flags, ports) => {
      const serving = invoke(["serve", ...flags, "--serve-workers=0"], { signal: stop.signal });
      await answers(serving, ports.health, "/readyz", 200);
      stop.abort();
      await serving;
    });
  } finally {
    Deno.env.delete("OTEL_EXPORTER_OTLP_ENDPOINT");
    await collector.close();
  }
  const [exported] = collector.received;
  assert.deepEqual([collector.received.length, exported?.path], [1, "/v1/metrics"]);
  assert.ok(exported!.names.includes("sluice_serve_source_ready"));
  assert.equal(exported!.resource["service.name"], "sluice-serve");
});

Deno.test("the metrics of a server and of a relay behind it show requests, lag, link and problems", async () => {
  const api = startFakeApiServer(), stop = new AbortController(), stopRelay = new AbortController();
  const served = { grpc: reservePort(), health: reservePort(), metrics: reservePort() };
  const relayed = { grpc: reservePort(), health: reservePort(), metrics: reservePort() };
  const flagsOf = ({ grpc, health, metrics }: typeof served) => [
    ...["--listen", `tcp://127.0.0.1:${grpc}`, "--healthz-bind-address", `127.0.0.1:${health}`],
    ...["--metrics-bind-address", `127.0.0.1:${metrics}`],
  ];
  const shown = ({ metrics }: typeof served, line: RegExp) =>
    until(async () => line.test((await get(metrics, "/metrics")).body));
  const upstream = `127.0.0.1:${served.grpc}`;
  const relay = invoke(["serve", "--source", `grpc://${upstream}`, ...flagsOf(relayed)], { signal: stopRelay.signal });
  await answers(relay, relayed.health, "/readyz", 503);
  await shown(relayed, /^sluice_problem\{code="source-unreachable",severity="error"\} 1$/m);
  assert.match((await get(relayed.metrics, "/metrics")).body, /^sluice_source_connected 0$/m);

  const serving = invoke(["serve", "--master", api.url, ...flagsOf(served)], { signal: stop.signal });
  await answers(serving, served.health, "/readyz", 200);
  await answers(relay, relayed.health, "/readyz", 200);
  await shown(relayed, new RegExp(`^sluice_source_server\\{server="${upstream}"\\} 1$`, "m"));
  await shown(relayed, /^sluice_source_connected 1$/m);
  await shown(served, /^sluice_source_connected 1$/m);
  await shown(served, /^rest_client_requests_total\{code="200",method="GET",host="127\.0\.0\.1:\d+"\} [1-9]/m);
  api.apply({ kind: "Service", metadata: { namespace: "default", name: "web" }, spec: { clusterIP: "10.0.0.1" } });
  await shown(served, /^sluice_serve_change_lag_seconds_count [1-9]/m);

  stop.abort();
  await serving;
  const connection = await Deno.connect({ hostname: "127.0.0.1", port: served.grpc }).catch(() => undefined);
  assert.equal(connection, undefined, "its port is closed");
  await shown(relayed, /^sluice_source_connected 0$/m);
  assert.equal((await get(relayed.health, "/readyz")).status, 200, "it serves the last state");
  stopRelay.abort();
  await relay;
  await api.close();
});

Deno.test("an empty address disables a server, and the file's addresses are the proxy's", async () => {
  await withFlags(async (flags, ports, folder) => {
    const config = `${folder}/config.yaml`;
    Deno.writeTextFileSync(
      config,
      `{"apiVersion":"kubeproxy.config.k8s.io/v1alpha1","kind":"KubeProxyConfiguration","healthzBindAddress":"192.0.2.1:1"}`,
    );
    const stop = new AbortController();
    const args = ["serve", ...flags, "--metrics-bind-address=", "--config", config];
    const serving = invoke(args, { signal: stop.signal });
    await answers(serving, ports.health, "/healthz", 200);
    stop.abort();
    const { log } = await serving;
    assert.match(log, /server listening.*health/);
    assert.doesNotMatch(log, /server listening.*metrics|192\.0\.2\.1/);
  });
});

Deno.test("an invalid address names its flag", async () => {
  await withFlags(async (flags) => {
    await assert.rejects(
      invoke(["serve", ...flags, "--metrics-bind-address", "localhost:80"]),
      /--metrics-bind-address is "localhost:80": must be IP:port/,
    );
  });
});

/** The findings of check --serve by name. */
async function findings(args: readonly string[]) {
  const { status, stdout } = await invoke(["check", "--serve", "--json", ...args]);
  const { findings } = JSON.parse(stdout) as { findings: { name: string; verdict: string; message: string }[] };
  return { status, of: (name: string) => findings.find((finding) => finding.name === name) };
}

Deno.test("check --serve finds free ports and a readable source", async () => {
  await withFlags(async (flags) => {
    const { status, of } = await findings(flags);
    assert.equal(status, 0);
    assert.deepEqual(
      ["gRPC", "health", "metrics", "TLS", "source"].map((name) => of(name)?.verdict),
      Array(5).fill("green"),
    );
    assert.match(of("source")!.message, /has 1 service$/);
  });
});

Deno.test("check --serve is red for a taken port and for a source that cannot be read", async () => {
  await withFlags(async (flags, ports, folder) => {
    const taken = Deno.listen({ hostname: "127.0.0.1", port: ports.metrics });
    Deno.writeTextFileSync(`${folder}/web.yaml`, "no: [state");
    const { status, of } = await findings([...flags, "--source", `state:${folder}/missing.yaml`]);
    const withoutMetrics = ["--metrics-bind-address=", "--healthz-bind-address", `127.0.0.1:${ports.metrics}`];
    assert.equal((await findings([...flags, ...withoutMetrics])).of("health")?.verdict, "red");
    taken.close();
    assert.equal(status, 1);
    assert.deepEqual([of("metrics")?.verdict, of("gRPC")?.verdict, of("source")?.verdict], ["red", "green", "red"]);
    assert.match(of("source")!.message, /missing\.yaml/);
  });
});

Deno.test("check --serve beside its own server is green", async () => {
  await withFlags(async (flags, ports, folder) => {
    const server = Deno.serve(
      { hostname: "127.0.0.1", port: ports.metrics, onListen: () => {} },
      () => new Response("# HELP\nsluice_serve_watchers 0\n"),
    );
    const taken = Deno.listen({ hostname: "127.0.0.1", port: ports.health });
    Deno.writeTextFileSync(`${folder}/web.yaml`, "");
    const { of } = await findings(flags);
    taken.close();
    await server.shutdown();
    assert.deepEqual([of("metrics")?.verdict, of("health")?.verdict], ["green", "green"]);
    assert.match(of("health")!.message, /used by the sluice serve that runs here/);
  });
});

Deno.test("check --serve compares certificate and key", async () => {
  await withFlags(async (flags, _, folder) => {
    const authority = await createCertificateAuthority("ca");
    const [one, other] = [await authority.issue("one"), await authority.issue("other")];
    for (
      const [name, pem] of Object.entries({ "ca": authority.cert, "crt": one.cert, "key": one.key, "other": other.key })
    ) {
      Deno.writeTextFileSync(`${folder}/${name}`, pem);
    }
    const tls = (key: string) => ["--listen-tls-crt", `${folder}/crt`, "--listen-tls-key", `${folder}/${key}`];
    const verdict = async (...args: string[]) => (await findings([...flags, ...args])).of("TLS");
    assert.match((await verdict(...tls("other")))!.message, /is not the key of the certificate/);
    assert.match((await verdict(...tls("missing")))!.message, /--listen-tls-key: cannot read/);
    assert.match((await verdict(...tls("ca")))!.message, /not a private key/);
    assert.match((await verdict("--listen-tls-ca", `${folder}/ca`))!.message, /needs a server certificate/);
    const fine = await verdict(...tls("key"), "--listen-tls-ca", `${folder}/ca`);
    assert.match(fine!.message, /match|expires/);
    assert.notEqual(fine!.verdict, "red");
  });
});

Deno.test("serve uses changed certificates for new connections, and ignores files that do not belong together", async () => {
  await withFlags(async (flags, ports, folder) => {
    const [before, after] = [await createCertificateAuthority("before"), await createCertificateAuthority("after")];
    const certificates = `${folder}/tls`;
    Deno.mkdirSync(certificates);
    const put = (files: Readonly<Record<string, string>>) => {
      for (const [name, pem] of Object.entries(files)) {
        Deno.writeTextFileSync(`${folder}/next`, pem);
        Deno.renameSync(`${folder}/next`, `${certificates}/${name}`);
      }
    };
    const issued = async (authority: typeof before) => {
      const { cert, key } = await authority.issue("server");
      return { ca: authority.cert, crt: cert, key };
    };
    const [old, renewed] = [await issued(before), await issued(after)];
    put(old);
    const stop = new AbortController();
    let log = "";
    const tls = ["ca", "crt", "key"].flatMap((name) => [`--listen-tls-${name}`, `${certificates}/${name}`]);
    const serving = invoke(["serve", ...flags, ...tls], { signal: stop.signal, onLog: (line) => log += line });
    await answers(serving, ports.health, "/readyz", 200);
    const watched = (files: typeof old) => isWatched(ports.grpc, files);
    assert.deepEqual([await watched(old), await watched(renewed)], [true, false]);
    // Keeps TLS sessions, and no connections.
    using client = Deno.createHttpClient({ caCerts: [old.ca], cert: old.crt, key: old.key, poolMaxIdlePerHost: 0 });
    const isAnswered = () => isAnsweredTo(client, ports.grpc);
    assert.deepEqual([await isAnswered(), await isAnswered()], [true, true]);

    put({ key: renewed.key });
    await until(() => log.includes("keeping the earlier ones"));
    assert.equal(await watched(old), true);

    put(renewed);
    await until(() => log.includes("using the new ones"));
    // Each worker takes them over a little later, and the kernel chooses one for each connection.
    await until(async () => !await watched(old));
    await until(() => watched(renewed));
    await until(async () => !await isAnswered());
    stop.abort();
    await serving;
  });
});

/** Whether a watcher with these certificates receives the state. */
async function isWatched(port: number, tls: { ca: string; crt: string; key: string }): Promise<boolean> {
  const stop = new AbortController();
  const result = Promise.withResolvers<boolean>();
  const source = createGrpcSource({
    addresses: [{ kind: "tcp", host: "127.0.0.1", port }],
    tls,
    scope: "global",
    nodeName: "node-a",
    inFull: true,
    clock: systemClock,
    logger: silentLogger,
  });
  const running = source.run({
    set: () => {},
    delete: () => {},
    reset: () => {},
    synced: () => result.resolve(true),
    problems: (_, problems) => problems.length > 0 && result.resolve(false),
  }, stop.signal);
  const isWatched = await result.promise;
  stop.abort();
  await running;
  return isWatched;
}

Deno.test("check --serve warns of an open server and of a certificate that ends soon, and refuses an expired one", async () => {
  await withFlags(async (flags, ports, folder) => {
    const authority = await createCertificateAuthority("ca");
    const tls = ["--listen-tls-crt", `${folder}/crt`, "--listen-tls-key", `${folder}/key`];
    const dayMs = 86_400_000;
    const verdict = async (fromMs: number, untilMs: number, ...more: readonly string[]) => {
      const { cert, key } = await authority.issueFor({ fromMs, untilMs }, "server", "127.0.0.1");
      Deno.writeTextFileSync(`${folder}/crt`, cert);
      Deno.writeTextFileSync(`${folder}/key`, key);
      const { status, of } = await findings([...flags, ...tls, ...more]);
      return [status, of("TLS")!.verdict, /expired|valid only from|expires|valid until/.exec(of("TLS")!.message)?.[0]];
    };
    assert.deepEqual(await verdict(-dayMs, 8 * dayMs), [0, "green", "valid until"]);
    assert.deepEqual(await verdict(-dayMs, 6 * dayMs), [0, "yellow", "expires"]);
    assert.deepEqual(await verdict(-dayMs, 6 * dayMs, "--strict"), [1, "yellow", "expires"]);
    assert.deepEqual(await verdict(-2 * dayMs, -dayMs), [1, "red", "expired"]);
    assert.deepEqual(await verdict(dayMs, 2 * dayMs), [1, "red", "valid only from"]);
    const open = await findings([...flags, "--listen", `tcp://:${ports.grpc}`]);
    assert.deepEqual([open.status, open.of("TLS")?.verdict], [0, "yellow"]);
  });
});

Deno.test("the number of workers has a limit", async () => {
  await withFlags(async (flags) => {
    for (const count of ["65", "-1", "many"]) {
      await assert.rejects(invoke(["serve", ...flags, `--serve-workers=${count}`]), /must be a number from 0 to 64/);
    }
  });
});
