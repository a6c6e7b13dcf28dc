/** A request to an unreachable server is repeated as soon as the server is reachable again. */
import assert from "node:assert/strict";
import { loadCredentials } from "../../../../sources/kubernetes/credentials.ts";
import { createApiClient } from "../../../../sources/kubernetes/http.ts";
import { serverReturns, type TcpAddress, tryToConnect } from "../../../../sources/kubernetes/http.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { startFakeApiServer } from "../../../fakes/api_server.ts";
import { createFakeClock, type FakeClock } from "../../../fakes/clock.ts";
import { until } from "../../../fakes/wait.ts";

/** Connects with these results; `lost` waits for the signal. */
function connecting(outcomes: ("refused" | "lost" | "connected")[]) {
  const addresses: TcpAddress[] = [];
  const connect = (address: TcpAddress, signal: AbortSignal) => {
    addresses.push(address);
    const outcome = outcomes.shift();
    if (outcome === "connected") return Promise.resolve();
    if (outcome === "refused") return Promise.reject(new Error("refused"));
    return new Promise<void>((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  };
  return { addresses, connect };
}

Deno.test("a server that is reachable after failures has returned; one that always was has not", async () => {
  const clock = createFakeClock();
  const never = new AbortController().signal;
  const away = connecting(["lost", "refused", "lost", "connected"]);
  const returned = serverReturns("https://[2001:db8::1]/prefix", { clock, connect: away.connect }, never);
  await clock.advanceSettled(60_000);
  assert.equal(await returned, true);
  assert.deepEqual(away.addresses, Array(4).fill({ hostname: "2001:db8::1", port: 443 }));
  const slow = connecting(["connected"]);
  assert.equal(await serverReturns("http://api:8080", { clock, connect: slow.connect }, never), false);
  assert.deepEqual(slow.addresses, [{ hostname: "api", port: 8080 }]);
  assert.deepEqual(clock.pending(), []);
});

Deno.test("probing for a server ends with its signal", async () => {
  const clock = createFakeClock();
  const end = new AbortController();
  const away = connecting(["lost"]);
  const looking = serverReturns("http://api", { clock, connect: away.connect }, end.signal);
  end.abort(new Error("over"));
  await assert.rejects(looking, /over/);
  assert.deepEqual(clock.pending(), []);
});

Deno.test("a TCP connection is opened and closed, or refused", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const address = { hostname: "127.0.0.1", port: listener.addr.port };
  const signal = new AbortController().signal;
  const [, peer] = await Promise.all([tryToConnect(address, signal), listener.accept()]);
  assert.equal(await peer.read(new Uint8Array(1)), null);
  peer.close();
  listener.close();
  await assert.rejects(tryToConnect(address, signal), /refused/);
});

async function withSilentServer(
  outcomes: Parameters<typeof connecting>[0],
  test: (given: {
    readonly clock: FakeClock;
    readonly server: ReturnType<typeof startFakeApiServer>;
    readonly send: (method?: "POST") => Promise<void>;
    readonly addresses: readonly TcpAddress[];
    /** Resolves when this many requests have arrived. */
    readonly arrived: (count: number) => Promise<void>;
  }) => Promise<void>,
): Promise<void> {
  const clock = createFakeClock();
  const server = startFakeApiServer();
  const { addresses, connect } = connecting(outcomes);
  const credentials = await loadCredentials({ master: server.url }, silentLogger);
  const api = createApiClient({ credentials, clock, logger: silentLogger, connect });
  const send = (method?: "POST") => {
    const body = method && { method, contentType: "application/json", text: "{}" };
    const request = { verb: "list", resource: "services", path: "/api/v1/services", body, readDeadlineMs: 1_000 };
    return api.send(request, () => {}, new AbortController().signal);
  };
  const arrived = async (count: number) => {
    await until(() => server.requests.length >= count);
  };
  server.fault(() => server.silence());
  try {
    await test({ clock, server, send, addresses, arrived });
  } finally {
    api.close();
    await server.close();
  }
}

Deno.test("an unanswered request is repeated when the server returns, long before its deadline", async () => {
  await withSilentServer(["lost", "connected"], async ({ clock, server, send, addresses, arrived }) => {
    const sent = send();
    await arrived(1);
    server.fault(undefined);
    await clock.advanceSettled(2_000);
    assert.equal(addresses.length, 1);
    await clock.advanceSettled(3_000);
    await arrived(2);
    await sent;
  });
});

Deno.test("a slow server that was always reachable gets the request once", async () => {
  await withSilentServer(["connected"], async ({ clock, server, send, addresses, arrived }) => {
    const sent = assert.rejects(send(), /was not answered within 30 s/);
    await arrived(1);
    await clock.advanceSettled(30_000);
    await sent;
    assert.deepEqual([addresses.length, server.requests.length], [1, 1]);
  });
});

Deno.test("a request that writes is not repeated", async () => {
  await withSilentServer(["lost", "connected"], async ({ clock, server, send, addresses, arrived }) => {
    const sent = assert.rejects(send("POST"), /was not answered within 30 s/);
    await arrived(1);
    await clock.advanceSettled(30_000);
    await sent;
    assert.deepEqual([addresses.length, server.requests.length], [0, 1]);
  });
});
