import assert from "node:assert/strict";
import { type HttpHandler, textAnswer } from "../../../../platform/http/http.ts";
import { type RunningServer, type ServerOptions, startServer } from "../../../../platform/http/server.ts";
import { createLogger, silentLogger } from "../../../../platform/log.ts";
import { createFakeClock, type FakeClock, settled } from "../../../fakes/clock.ts";
import { ask, connect, isClosed, send } from "../../observe/http_client.ts";
import { until } from "../../../fakes/wait.ts";

const hello: HttpHandler = ({ method, path }) => textAnswer(200, `${method} ${path}`);

async function withServer(
  test: (address: string, t: { clock: FakeClock; stop: AbortController; server: RunningServer }) => Promise<void>,
  handler = hello,
): Promise<void> {
  const clock = createFakeClock(), stop = new AbortController();
  const server = await startServer("test", handler, {
    bindAddress: "127.0.0.1:0",
    bindAddressHardFail: true,
    clock,
    logger: silentLogger,
    signal: stop.signal,
  });
  try {
    await test(server.address()!, { clock, stop, server });
  } finally {
    stop.abort();
  }
}

Deno.test("a request is answered and the connection closed, understood by an HTTP client", () =>
  withServer(async (address) => {
    const answer = await fetch(`http://${address}/a/b?c=d`, { method: "POST", body: "x" });
    assert.equal(await answer.text(), "POST /a/b");
    assert.equal(answer.headers.get("connection"), "close");
    assert.equal(answer.headers.get("content-type"), "text/plain; charset=utf-8");
  }));

Deno.test("HEAD gets the head of GET without a body", () =>
  withServer(async (address) => {
    const answer = await ask(address, "/x", "HEAD");
    assert.equal(answer.headers.get("Content-Length"), String("HEAD /x".length));
    assert.equal(answer.body, "");
  }));

Deno.test("a request may come in pieces, from HTTP/1.0, with bare line feeds, or in absolute form", () =>
  withServer(async (address) => {
    const connection = await connect(address);
    for (const piece of ["GET /pie", "ces HTTP/1.1\r\nHo", "st: x\r\n\r", "\n"]) {
      await connection.write(new TextEncoder().encode(piece));
      await settled();
    }
    assert.match(await new Response(connection.readable).text(), /GET \/pieces$/);
    assert.match(await send(address, "GET /old HTTP/1.0\r\n\r\n"), /GET \/old$/);
    assert.match(await send(address, "GET /bare HTTP/1.1\nHost: x\n\n"), /GET \/bare$/);
    assert.match(await send(address, "GET http://a.b:1/far?x HTTP/1.1\r\n\r\n"), /GET \/far$/);
    assert.match(await send(address, "GET http://a.b HTTP/1.1\r\n\r\n"), /GET \/$/);
  }));

Deno.test("an invalid request gets 400, one with a long head 431", () =>
  withServer(async (address) => {
    assert.match(await send(address, "\x16\x03\x01 hello\r\n\r\n"), /^HTTP\/1\.1 400 Bad Request\r\n/);
    assert.match(await send(address, "GET / HTTP/2.0\r\n\r\n"), /^HTTP\/1\.1 400 /);
    assert.match(await send(address, `GET / HTTP/1.1\r\nX: ${"x".repeat(17_000)}`), /^HTTP\/1\.1 431 /);
  }));

Deno.test("a handler that throws gives 500, and the server continues", () => {
  const failing: HttpHandler = ({ path }) => {
    if (path === "/bad") throw new Error("boom");
    return textAnswer(200, "good");
  };
  return withServer(async (address) => {
    assert.equal((await ask(address, "/bad")).status, 500);
    assert.equal((await ask(address, "/")).body, "good");
  }, failing);
});

Deno.test("a large response arrives completely", () => {
  const body = "0123456789".repeat(500_000);
  return withServer(async (address) => {
    assert.equal(await (await fetch(`http://${address}/`)).text(), body);
  }, () => textAnswer(200, body));
});

/** Reads until the server closes the connection. */
function endOf(connection: Deno.Conn): { isOver: () => boolean } {
  let over = false;
  (async () => {
    while (await connection.read(new Uint8Array(65_536)) !== null);
  })().catch(() => {}).finally(() => over = true);
  return { isOver: () => over };
}

Deno.test("a silent client is disconnected after 5 seconds", () =>
  withServer(async (address, { clock }) => {
    const connection = await connect(address);
    await ask(address);
    const end = endOf(connection);
    await clock.advanceSettled(4_999);
    assert.equal(end.isOver(), false);
    await clock.advanceSettled(1);
    await until(end.isOver);
    connection.close();
  }));

Deno.test("a client that sends its request byte by byte is disconnected after 10 seconds", () =>
  withServer(async (address, { clock }) => {
    const connection = await connect(address);
    const end = endOf(connection);
    for (const byte of "GET /") {
      await connection.write(new TextEncoder().encode(byte));
      // Once this is answered, the byte has been read.
      await ask(address);
      await clock.advanceSettled(1_999);
    }
    assert.equal(end.isOver(), false);
    await clock.advanceSettled(5);
    await until(end.isOver);
    connection.close();
  }));

Deno.test("a client that does not read the response is disconnected after 5 seconds", () => {
  const requested = Promise.withResolvers<void>();
  return withServer(async (address, { clock }) => {
    const connection = await connect(address);
    await connection.write(new TextEncoder().encode("GET / HTTP/1.1\r\n\r\n"));
    await requested.promise;
    await ask(address, "/small");
    await until(() => clock.pending().length > 0);
    await clock.advanceSettled(10_000);
    assert.deepEqual(clock.pending(), [], "no timer is left");
    connection.close();
  }, ({ path }) => {
    if (path === "/") requested.resolve();
    return textAnswer(200, path === "/" ? "x".repeat(64 * 1024 * 1024) : "");
  });
});

Deno.test("a client that keeps the connection open after the response is disconnected after a second", () =>
  withServer(async (address, { clock }) => {
    const connection = await connect(address);
    await connection.write(new TextEncoder().encode("GET / HTTP/1.1\r\n\r\n"));
    await new Response(connection.readable).text();
    await until(() => clock.pending().includes(1_000));
    await clock.advanceSettled(1_000);
    await until(() => clock.pending().length === 0);
  }));

Deno.test("the signal stops the server and disconnects silent clients at once", () =>
  withServer(async (address, { stop, server }) => {
    const silent = await connect(address);
    await ask(address);
    stop.abort();
    assert.equal(await silent.read(new Uint8Array(1)).catch(() => null), null);
    silent.close();
    assert.equal(server.address(), undefined);
    await isClosed(address);
  }));

function failingStart(times: number, overrides: Partial<ServerOptions>) {
  const clock = createFakeClock(), stop = new AbortController(), lines: string[] = [];
  const logger = createLogger({ level: "info", format: "text", clock, write: (line) => lines.push(line) });
  let tries = 0;
  const open = (options: { hostname: string; port: number }) => {
    if (++tries <= times) throw new Deno.errors.AddrInUse("taken");
    return Deno.listen(options);
  };
  const options = { bindAddress: "127.0.0.1:0", bindAddressHardFail: false, clock, logger, signal: stop.signal, open };
  return {
    clock,
    stop,
    lines,
    tries: () => tries,
    start: () => startServer("test", hello, { ...options, ...overrides }),
  };
}

Deno.test("a port in use is logged and retried every 5 seconds", async () => {
  const { clock, stop, lines, start } = failingStart(2, {});
  const server = await start();
  assert.equal(server.address(), undefined);
  await clock.advanceSettled(9_999);
  assert.equal(server.address(), undefined);
  await clock.advanceSettled(1);
  assert.equal((await ask(server.address()!, "/x")).body, "GET /x");
  assert.match(
    lines[0]!,
    /ERROR cannot listen, retrying server=test address=127.0.0.1:0 error=taken retryIn="5 s"/,
  );
  assert.equal(lines.filter((line) => line.includes("cannot listen")).length, 2);
  stop.abort();
});

Deno.test("the signal ends the retries", async () => {
  const { clock, stop, tries, start } = failingStart(Infinity, {});
  await start();
  stop.abort();
  await clock.advanceSettled(60_000);
  assert.equal(tries(), 1);
  assert.deepEqual(clock.pending(), []);
});

Deno.test("with bindAddressHardFail, a port in use is an error that names the server and the address", async () => {
  const { clock, start } = failingStart(Infinity, { bindAddressHardFail: true });
  await assert.rejects(start(), (error: Error) => {
    assert.equal(error.message, "the test server cannot listen on 127.0.0.1:0");
    assert.ok(error.cause instanceof Deno.errors.AddrInUse);
    return true;
  });
  assert.deepEqual(clock.pending(), []);
});

Deno.test("without a bind address no server starts", async () => {
  const { tries, start } = failingStart(0, { bindAddress: undefined });
  assert.equal((await start()).address(), undefined);
  assert.equal(tries(), 0);
});

Deno.test("a handler gets the path and the query apart", () =>
  withServer(
    async (address) => {
      for (const target of ["/a", "/a?", "/a?b=c", "/a?b=c?d", "/?b", "http://h/a?b", "http://h?b"]) {
        const [, path = "", query = ""] = /^(?:http:\/\/h)?([^?]*)\??(.*)$/.exec(target)!;
        const answer = await send(address, `GET ${target} HTTP/1.1\r\n\r\n`);
        assert.equal(answer.split("\r\n\r\n")[1], `${path || "/"} ${query}`, target);
      }
    },
    ({ path, query }) => textAnswer(200, `${path} ${query}`),
  ));
