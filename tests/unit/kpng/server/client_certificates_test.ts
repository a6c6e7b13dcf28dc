/** Clients whose certificate was valid, and is not any more. */
import assert from "node:assert/strict";
import { createFakeClock } from "../../../fakes/clock.ts";
import { createCertificateAuthority } from "../../../fakes/certificates.ts";
import { isAnsweredTo } from "../../../fakes/sockets.ts";
import { until } from "../../../fakes/wait.ts";
import { withServer } from "./served.ts";

const HOUR_MS = 3_600_000;

/** A client with a CA and its certificate, which keeps TLS sessions, and no connections. */
function clientOf({ ca, crt, key }: { readonly ca: string; readonly crt: string; readonly key: string }) {
  return Deno.createHttpClient({ caCerts: [ca], cert: crt, key, poolMaxIdlePerHost: 0 });
}

/** Files of a new authority, with one certificate for the server and the client, that is valid for an hour. */
async function newFiles() {
  const authority = await createCertificateAuthority("ca");
  const { cert, key } = await authority.issueFor({ untilMs: HOUR_MS }, "server", "127.0.0.1");
  return { ca: authority.cert, crt: cert, key };
}

Deno.test("a TLS session ends with the certificate that it started with", async () => {
  const files = await newFiles();
  const clock = createFakeClock(Date.now());
  await withServer([], async ({ port }) => {
    using client = clientOf(files);
    assert.deepEqual([await isAnsweredTo(client, port), await isAnsweredTo(client, port)], [true, true]);
    await clock.advanceSettled(2 * HOUR_MS);
    assert.equal(await isAnsweredTo(client, port), false);
  }, { tls: files, clock });
});

Deno.test("a TLS session goes on if the server's certificate changes, and its CA does not", async () => {
  const authority = await createCertificateAuthority("ca");
  const issued = async () => {
    const { cert, key } = await authority.issue("server");
    return { ca: authority.cert, crt: cert, key };
  };
  const files = await issued();
  await withServer([], async ({ port, serving }) => {
    using client = clientOf(files);
    assert.equal(await isAnsweredTo(client, port), true);
    serving.renew(await issued());
    assert.equal(await isAnsweredTo(client, port), true);
  }, { tls: files });
});

Deno.test("a handshake from before a change of the CA lets nobody in", async () => {
  const [old, renewed] = [await newFiles(), await newFiles()];
  await withServer([], async ({ port, serving }) => {
    const relay = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    using client = clientOf(old);
    const answered = isAnsweredTo(client, (relay.addr as Deno.NetAddr).port);
    const fromClient = await relay.accept();
    // The client would try again.
    relay.close();
    const toServer = await Deno.connect({ port });
    // The client's hello, and the server's answer to it.
    for (const [from, to] of [[fromClient, toServer], [toServer, fromClient]] as const) {
      const bytes = new Uint8Array(16_384);
      await to.write(bytes.subarray(0, await from.read(bytes) ?? 0));
    }
    serving.renew(renewed);
    const ended = Promise.allSettled([
      fromClient.readable.pipeTo(toServer.writable),
      toServer.readable.pipeTo(fromClient.writable),
    ]);
    assert.equal(await answered, false);
    // Nor does a session that an earlier handshake has started.
    assert.equal(await isAnsweredTo(client, port), false);
    await ended;
  }, { tls: old });
});

Deno.test("a client that speaks no HTTP/2 is refused, and counted with the reason", async () => {
  const files = await newFiles();
  await withServer([], async ({ port, serving }) => {
    const { ca, crt: cert, key } = files;
    const client = await Deno.connectTls({ hostname: "127.0.0.1", port, caCerts: [ca], cert, key, alpnProtocols: [] });
    await client.handshake();
    await until(() => serving.closed("no HTTP/2 over TLS") === 1);
    assert.equal(await client.read(new Uint8Array(1)).catch(() => null), null, "the connection is closed");
    client.close();
  }, { tls: files });
});
