/** The kept state of an API server, from the command line to the sink. */
import assert from "node:assert/strict";
import { ApiError, type ApiErrorKind, type ClusterObject, type DetailFilters } from "../../../core/objects/mod.ts";
import { createTracking } from "../../../core/tracking/mod.ts";
import { createLogger, silentLogger, systemClock } from "../../../platform/mod.ts";
import { createStateFile } from "../../../sources/kept/state_file.ts";
import { openSource } from "../../../sources/mod.ts";
import { type ApiObject, startFakeApiServer } from "../../fakes/api_server.ts";
import { createCertificateAuthority } from "../../fakes/certificates.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { createRecordingSink } from "../../fakes/kpng.ts";
import { reservePort } from "../../fakes/sockets.ts";
import { until } from "../../fakes/wait.ts";
import { withServer } from "../kpng/server/served.ts";
import { service } from "../../fakes/cluster_objects.ts";
import { createFakeStorage, type FakeStorage } from "../../fakes/storage.ts";
import { accepted } from "../config/parse.ts";

const WEB: ApiObject = {
  kind: "Service",
  metadata: { namespace: "default", name: "web" },
  spec: { type: "ClusterIP", clusterIPs: ["10.96.0.10"], ports: [{ protocol: "TCP", port: 80 }] },
};

/** The names of the objects that a start with these flags serves once it serves any state, and its log. */
async function served(storage: FakeStorage, flags: readonly string[]) {
  const { configuration } = accepted(["--hostname-override", "node-a", "--state-directory", "/state", ...flags]);
  const clock = systemClock;
  let log = "";
  const noted = Promise.withResolvers<void>();
  const write = (line: string) => {
    log += line;
    if (line.includes("kept state")) noted.resolve();
  };
  const logger = createLogger({ level: "info", format: "text", clock, write });
  const tracking = createTracking({
    kinds: configuration.modeDescription.kinds,
    nodeName: "node-a",
    bindAddress: "",
    clock,
    onChange: () => {},
    onSynced: () => noted.resolve(),
    onProblems: () => {},
  });
  const servedMs: (number | undefined)[] = [];
  const file = createStateFile("state", storage);
  const kept = { file, objects: tracking.objects, onServing: (atMs: number | undefined) => servedMs.push(atMs) };
  const { source, close } = await openSource({ configuration, logger, clock, kept });
  const ended = new AbortController();
  const running = source.run(tracking, ended.signal);
  await noted.promise;
  const names = Array.from(tracking.objects(), ({ kind, name }: ClusterObject) => `${kind} ${name}`);
  ended.abort();
  await running;
  close();
  return { names, log, isKept: servedMs[0] !== undefined };
}

Deno.test("the state of an API server is served by later starts that cannot reach it, for that server alone", async () => {
  const storage = createFakeStorage();
  const server = startFakeApiServer();
  server.apply(WEB);
  const before = await served(storage, ["--master", server.url]);
  assert.deepEqual([before.names, before.isKept], [["Service web"], false]);
  await server.close();

  const after = await served(storage, ["--master", server.url, "--state-delay", "1h"]);
  assert.deepEqual([after.names, after.isKept], [["Service web"], true], "a refused connection ends the delay");

  const renamed = await served(storage, ["--master", server.url.replace("127.0.0.1", "localhost"), "--state-delay=0s"]);
  assert.deepEqual([renamed.names, renamed.isKept], [[], false]);
  assert.match(
    renamed.log,
    /ignored a kept state .*source kube http:\/\/127\.0\.0\.1:\d+; this is .*http:\/\/localhost:/,
  );
  const otherName = await served(storage, ["--master", server.url, "--state-delay=0s", "--service-proxy-name", "edge"]);
  assert.deepEqual(otherName.isKept, false);
});

const NO_DETAILS: DetailFilters = {
  ...{ serviceLabels: () => false, serviceAnnotations: () => false },
  ...{ nodeLabels: () => false, nodeAnnotations: () => false },
};

Deno.test("a proxy asks the API server for what its mode and its node need, a server of others for everything", async () => {
  const server = startFakeApiServer();
  const asked = async (flags: readonly string[], details?: DetailFilters) => {
    const before = server.requests.length, stop = new AbortController();
    const { configuration } = accepted(["--hostname-override", "node-a", "--master", server.url, ...flags]);
    const { source, close } = await openSource({ configuration, logger: silentLogger, clock: systemClock }, details);
    const sink = createRecordingSink(), running = source.run(sink, stop.signal);
    const kinds = details === undefined ? configuration.modeDescription.kinds.length : 4;
    const lists = () => server.requests.slice(before).filter(({ verb }) => verb === "list");
    await until(() => new Set(lists().map(({ path }) => path)).size >= kinds);
    stop.abort();
    await running;
    close();
    return Object.fromEntries(
      lists().map(({ path, query: { labelSelector, fieldSelector } }) => [
        path.split("/").at(-1),
        [labelSelector, fieldSelector].filter((selector) => selector !== undefined).join(" "),
      ]),
    );
  };
  const slices = "!service.kubernetes.io/headless", services = "!service.kubernetes.io/service-proxy-name";
  const ofNode = {
    ...{ services: `${services} spec.clusterIP!=None`, endpointslices: slices },
    nodes: "metadata.name=node-a",
  };
  assert.deepEqual(await asked(["--proxy-mode", "iptables"]), ofNode);
  assert.deepEqual(await asked(["--proxy-mode", "nftables"]), { ...ofNode, servicecidrs: "" });
  assert.deepEqual(await asked(["--proxy-mode", "iptables"], NO_DETAILS), {
    ...{ services, endpointslices: slices, nodes: "", servicecidrs: "" },
  });
  const { services: ofEdge } = await asked(["--proxy-mode", "iptables", "--service-proxy-name", "edge"]);
  assert.equal(ofEdge, "service.kubernetes.io/service-proxy-name=edge spec.clusterIP!=None");
  await server.close();
});

Deno.test("which errors of the API server only an administrator can fix", async () => {
  const { configuration } = accepted(["--master", "http://127.0.0.1:1"]);
  const { events, ownNode, close } = await openSource({ configuration, logger: silentLogger, clock: systemClock });
  const cases: readonly (readonly [kind: ApiErrorKind, event: boolean, node: boolean, isGone: boolean])[] = [
    ["forbidden", true, true, false],
    ["rejected", true, true, false],
    ["not-found", true, false, true],
    ["conflict", true, false, false],
    ["unreachable", false, false, false],
    ["throttled", false, false, false],
  ];
  for (const [kind, event, node, isGone] of cases) {
    const error = new ApiError(kind, "no");
    assert.deepEqual([events!.isRefusal(error), ownNode!.isRefusal(error), events!.isGone(error)], [
      event,
      node,
      isGone,
    ]);
  }
  assert.ok(!events!.isRefusal(new Error("forbidden")));
  close();
});

Deno.test("beside its objects, an API server tells UIDs, this node's own Node and the names of others, and takes writes", async () => {
  const server = startFakeApiServer(), { signal } = new AbortController();
  const { configuration } = accepted(["--hostname-override", "node-a", "--master", server.url]);
  const { events, ownNode, otherNodes, server: address, close } = await openSource({
    ...{ configuration, logger: silentLogger, clock: systemClock },
  });
  server.apply({ ...WEB, metadata: { ...WEB.metadata, uid: "1" } });
  for (const name of ["node-a", "node-b"]) server.apply({ kind: "Node", metadata: { name } });
  assert.equal(address, server.url);
  assert.equal(await events!.uidOf({ namespace: "default", name: "web" }, signal), "1");
  assert.match(await otherNodes!(signal) ?? "", /node-b/);
  const requested = async (act: () => Promise<unknown>) => {
    const before = server.requests.length;
    await act().catch(() => {});
    return server.requests.slice(before).map(({ verb, path }) => `${verb} ${path}`);
  };
  assert.deepEqual(await requested(() => ownNode!.readNode(signal)), ["get /api/v1/nodes/node-a"]);
  for (const { send } of [events!, ownNode!]) {
    const path = "/api/v1/namespaces/default/events";
    const write = () => send({ verb: "create", resource: "events", path, object: {} }, signal);
    assert.deepEqual(await requested(write), [`create ${path}`]);
  }
  close();
  await server.close();
});

Deno.test("in a pod, the environment has the address of the API server", async () => {
  const { configuration } = accepted([]);
  const env = (name: string) => name === "KUBERNETES_SERVICE_HOST" ? "10.0.0.1" : undefined;
  const opening = openSource({ configuration, logger: silentLogger, clock: systemClock, env });
  await assert.rejects(opening, ({ message }: Error) => {
    assert.match(message, /KUBERNETES_SERVICE_PORT/);
    assert.doesNotMatch(message, /KUBERNETES_SERVICE_HOST/);
    return true;
  });
});

Deno.test("TLS is refused if any of several servers is a unix socket", async () => {
  const folder = await Deno.makeTempDir();
  Deno.writeTextFileSync(`${folder}/ca`, "a certificate");
  for (const servers of ["unix:///run/a.sock", "grpc://a:1,unix:///run/a.sock"]) {
    const { configuration } = accepted(["--source", servers, "--api-client-tls-ca", `${folder}/ca`]);
    await assert.rejects(
      openSource({ configuration, logger: silentLogger, clock: systemClock }),
      /TLS is not supported on unix sockets/,
    );
  }
  await Deno.remove(folder, { recursive: true });
});

Deno.test("the kept state waits as long as the configuration says, and a further server is tried before it", async () => {
  const { configuration } = accepted(["--source", `grpc://127.0.0.1:${reservePort()}`, "--state-delay", "1h"]);
  const waiting = createFakeClock(), stop = new AbortController();
  const kept = {
    file: createStateFile("state", createFakeStorage()),
    objects: () => [],
    onServing: () => assert.fail("served the kept state"),
  };
  const { source } = await openSource({ configuration, logger: silentLogger, clock: waiting, kept });
  const running = source.run(createRecordingSink(), stop.signal);
  await until(() => waiting.pending().includes(3_600_000));
  stop.abort();
  await running;

  await withServer([], async ({ port }) => {
    const sink = createRecordingSink(), storage = createFakeStorage(), end = new AbortController();
    const servers = `grpc://127.0.0.1:${reservePort()},127.0.0.1:${port}`;
    const { configuration } = accepted(["--source", servers, "--state-delay", "1h"]);
    const file = createStateFile("state", storage), read: string[] = [];
    const noted = {
      ...file,
      read: (origin: Parameters<typeof file.read>[0]) => (read.push("read"), file.read(origin)),
    };
    const { source } = await openSource({
      ...{ configuration, logger: silentLogger, clock: systemClock, kept: { ...kept, file: noted } },
    });
    const running = source.run(sink, end.signal);
    await sink.until("synced Service");
    end.abort();
    await running;
    assert.deepEqual(read, []);
  });
});

Deno.test("a gRPC source uses the certificates, the scope and the limit of messages that the flags give", async () => {
  const authority = await createCertificateAuthority("ca"), { cert, key } = await authority.issue("node");
  const folder = await Deno.makeTempDir();
  for (const [name, pem] of Object.entries({ ca: authority.cert, crt: cert, key })) {
    Deno.writeTextFileSync(`${folder}/${name}`, pem);
  }
  const tls = ["ca", "crt", "key"].map((name) => `--api-client-tls-${name}=${folder}/${name}`);
  await withServer([service("default/web")], async ({ port, serving }) => {
    /** The scope in which the state is watched, or why it cannot be. */
    const outcome = async (...flags: readonly string[]): Promise<string> => {
      const { configuration } = accepted(["--source", `grpc://127.0.0.1:${port}`, ...flags]);
      const ended = Promise.withResolvers<string>(), stop = new AbortController();
      const { source } = await openSource({
        ...{ configuration, logger: silentLogger, clock: systemClock },
        onLink: (_, __, event) => event.type === "failed" && ended.resolve(event.error),
      });
      const running = source.run({
        ...createRecordingSink(),
        synced: () => ended.resolve(serving.count("watchers local") > 0 ? "local" : "global"),
      }, stop.signal);
      const found = await ended.promise;
      stop.abort();
      await running;
      await until(() => serving.watchers() === 0);
      return found;
    };
    assert.equal(await outcome(...tls), "global");
    assert.equal(await outcome(...tls, "--local"), "local");
    assert.match(await outcome(...tls, "--max-msg-size", "10"), /more than the limit of 10/);
    Deno.writeTextFileSync(`${folder}/ca`, (await createCertificateAuthority("other")).cert);
    assert.match(await outcome(...tls), /certificate/i);
  }, { tls: { ca: authority.cert, crt: cert, key } });
  await Deno.remove(folder, { recursive: true });
});
