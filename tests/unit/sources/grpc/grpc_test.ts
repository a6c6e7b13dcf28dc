import assert from "node:assert/strict";
import { call } from "../../../../sources/grpc/mod.ts";
import { LIVENESS } from "../../../../kpng/transport/peers.ts";
import { METHODS } from "../../../../kpng/messages/messages.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createCertificateAuthority } from "../../../fakes/certificates.ts";
import { endpoint, endpointSlice, service } from "../../../fakes/cluster_objects.ts";
import { createFakeClock, settled } from "../../../fakes/clock.ts";
import { passing, until } from "../../../fakes/wait.ts";
import { recordedCalls, type RecordingSink, startKpngServer } from "../../../fakes/kpng.ts";
import { startSilentLine } from "../../../fakes/silent_line.ts";
import { withServer } from "../../kpng/server/served.ts";
import { withSource } from "./grpc_source.ts";

const changes = (sink: RecordingSink) =>
  sink.take().filter((line) => /^(set|delete)/.test(line)).map((line) => line.split(" ").slice(0, 3).join(" "));

Deno.test("after a server restarts with changes, only the differences are reported", async () => {
  const slice = (address: string) => endpointSlice("default/web-1", [endpoint(address)]);
  let port = 0;
  let resume = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  const first = withServer([service("default/web"), slice("10.1.0.1"), service("default/old")], async (served) => {
    port = served.port;
    started.resolve();
    await resume.promise;
  });
  await started.promise;
  await withSource(port, async (sink, logged) => {
    await sink.until("synced Service");
    assert.deepEqual(changes(sink).sort(), [
      "set EndpointSlice default/web-1",
      "set Service default/old",
      "set Service default/web",
    ]);
    resume.resolve();
    await first;
    await sink.until("cannot watch the server");
    assert.deepEqual(changes(sink), [], "the last state stays in effect");
    resume = Promise.withResolvers();
    await withServer([service("default/web"), slice("10.1.0.2"), service("default/new")], async () => {
      await sink.until("delete Service default/old");
      assert.deepEqual(changes(sink).sort(), [
        "delete Service default/old",
        "set EndpointSlice default/web-1",
        "set Service default/new",
      ]);
    }, { port });
    assert.equal(logged.filter((line) => line.includes("watching the server again")).length, 1);
  });
});

for (const scope of ["global", "local"] as const) {
  Deno.test(`a server passes the limits of node ports on, and closes none (${scope})`, async () => {
    const fields = { ports: [{ name: "http", protocol: "tcp", port: 80, nodePort: 30080 }] } as const;
    const web = service("default/web", { ...fields, own: { nodePortAddresses: "192.168.1.0/24" } });
    const slices = ["web", "open"].map((name) => endpointSlice(`default/${name}-1`, [endpoint("10.1.0.1")]));
    await withServer([web, service("default/open", fields), ...slices], ({ port }) =>
      withSource(port, async (sink) => {
        await sink.until("synced Service");
        const services = sink.take().filter((line) => line.startsWith("set Service")).sort();
        assert.deepEqual(services.map((line) => line.match(/"nodePort":30080/)?.length), [1, 1]);
        assert.deepEqual(services.map((line) => line.includes('"nodePortAddresses":"192.168.1.0/24"')), [false, true]);
      }, { scope }));
  });
}

const authority = await createCertificateAuthority("authority");
const other = await createCertificateAuthority("another authority");

Deno.test("with TLS, both sides need a certificate of the CA", async () => {
  const server = await authority.issue("server");
  const client = await authority.issue("node-1");
  const stranger = await other.issue("node-1");
  const tls = { ca: authority.cert, crt: server.cert, key: server.key };
  await withServer([service("default/web")], async ({ port }) => {
    const good = { ca: authority.cert, crt: client.cert, key: client.key };
    await withSource(port, (sink) => sink.until("set Service default/web"), { tls: good });
    const bad = {
      "no certificate": { ca: authority.cert, crt: undefined, key: undefined },
      "another authority's certificate": { ca: authority.cert, crt: stranger.cert, key: stranger.key },
      "another authority": { ...good, ca: other.cert },
      "no TLS": undefined,
    };
    for (const [name, tls] of Object.entries(bad)) {
      await withSource(port, async (sink) => {
        await sink.until("cannot watch the server");
        assert.deepEqual(changes(sink), [], name);
      }, { tls });
    }
  }, { tls });
});

for (const encrypted of [false, true]) {
  Deno.test(`a dead connection ${encrypted ? "with TLS" : "without TLS"} is detected at both ends`, async () => {
    const issued = await authority.issue("either");
    const tls = encrypted ? { ca: authority.cert, crt: issued.cert, key: issued.key } : undefined;
    const clock = createFakeClock();
    const liveness = { probeAfterMs: 500, answerMs: 1000 };
    await withServer([service("default/web")], async ({ port, serving, store }) => {
      const line = startSilentLine(port);
      await withSource(
        line.port,
        async (sink, logged) => {
          await sink.until("set Service default/web");
          line.silence();
          store.set(service("default/new"));
          await sink.until("the peer has not answered for 1.5 s");
          await sink.until("set Service default/new");
          assert.ok(logged.some((line) => line.includes("watching the server again")));
          // The server is not notified that the client gave up; it must detect that itself.
          await passing(clock, () => line.counts().server > 0 && serving.watchers() === 1);
        },
        { tls, liveness },
        clock,
      );
      line.close();
    }, { clock, tls, limits: liveness });
  });
}

Deno.test("a silent server that answers probes stays connected, even if it answers with an error", async () => {
  const server = await startKpngServer(recordedCalls().at(-1)!);
  server.allow(1);
  assert.ok(server.address.kind === "tcp");
  const line = startSilentLine(server.address.port);
  const clock = createFakeClock();
  await withSource(line.port, async (sink, logged) => {
    await sink.until("synced Service");
    // Only the first interval had traffic.
    clock.advance(LIVENESS.probeAfterMs);
    for (let i = 0; i < 3; i++) {
      const { calls, received } = { calls: server.calls(), received: line.counts().received };
      clock.advance(LIVENESS.probeAfterMs);
      await until(() => server.calls() > calls && line.counts().received > received);
      for (let turn = 0; turn < 20; turn++) await settled();
      clock.advance(LIVENESS.answerMs);
    }
    await settled();
    assert.ok(!logged.some((line) => line.includes("WARN")), logged.join(""));
    assert.equal(line.counts().opened, 1);
  }, { clock });
  line.close();
  await server.close();
});

Deno.test("a call removes its listeners from the signal when it ends", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const closing = (async () => {
    for await (const connection of listener) connection.close();
  })();
  const { signal } = new AbortController();
  const listening = new Set<unknown>();
  const { addEventListener, removeEventListener } = signal;
  Object.assign(signal, {
    addEventListener(...args: Parameters<typeof addEventListener>) {
      listening.add(args[1]);
      addEventListener.apply(signal, args);
    },
    removeEventListener(...args: Parameters<typeof removeEventListener>) {
      listening.delete(args[1]);
      removeEventListener.apply(signal, args);
    },
  });
  await assert.rejects(call({
    address: { kind: "tcp", host: "127.0.0.1", port: (listener.addr as Deno.NetAddr).port },
    tls: undefined,
    method: METHODS.global,
    request: new Uint8Array(),
    onMessage: () => false,
    clock: createFakeClock(),
    liveness: LIVENESS,
    signal,
  }));
  assert.equal(listening.size, 0);
  listener.close();
  await closing;
});

Deno.test("a server that is not gRPC is reported as such", async () => {
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    () => new Response("no", { status: 404 }),
  );
  await withSource(server.addr.port, async (sink) => {
    await sink.until("cannot watch the server");
    assert.match(sink.take().join(), /HTTP status 404 \(UNIMPLEMENTED\) instead of a gRPC status/);
  });
  await server.shutdown();
});

Deno.test("a unix socket works, and only its owner may open it", async () => {
  const { startServing } = await import("../../../../kpng/server/mod.ts");
  const { createStore } = await import("../../../../kpng/store/mod.ts");
  const { KINDS } = await import("../../../../core/objects/cluster_object.ts");
  const folder = Deno.makeTempDirSync();
  const address = { kind: "unix", path: `${folder}/sluice.sock` } as const;
  const store = createStore({ clock: systemClock, onProblems: () => {} });
  store.set(service("default/web"));
  for (const kind of KINDS) store.synced(kind);
  const serve = () => startServing({ address, tls: undefined, store, clock: systemClock, logger: silentLogger });
  const serving = await serve();
  assert.equal(Deno.statSync(address.path).mode! & 0o777, 0o600);
  await withSource(0, (sink) => sink.until("set Service default/web"), { addresses: [address] });
  await serving.close();
  Deno.writeTextFileSync(address.path, "another program's");
  await assert.rejects(serve, /cannot listen: /);
  Deno.removeSync(folder, { recursive: true });
});

Deno.test("a message longer than the limit is refused, and one within it is received", async () => {
  await withServer([service("default/web")], async ({ port }) => {
    await withSource(port, async (sink) => {
      await sink.until("a message has");
      assert.deepEqual(changes(sink), []);
    }, { maxMessageBytes: 16 });
    await withSource(port, async (sink) => await sink.until("synced Service"), { maxMessageBytes: 1024 });
  });
});
