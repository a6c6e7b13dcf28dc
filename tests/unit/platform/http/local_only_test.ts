/** Access control of the status page. */
import assert from "node:assert/strict";
import { listenHttp } from "../../../../platform/http/server.ts";
import { localOnly, textAnswer } from "../../../../platform/http/http.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { canonicalAddress, isLoopback, joinHostPort } from "../../../../platform/address.ts";
import { send } from "../../observe/http_client.ts";

const show = localOnly("0.0.0.0:10249", () => textAnswer(200, "secret"));

async function statusFor(host: string, { method = "GET", isFromThisHost = true, handler = show } = {}) {
  const answer = await handler({ method, path: "/", query: "", accept: "", host, isFromThisHost });
  assert.equal(answer.body.includes("secret"), answer.status === 200);
  return answer;
}

Deno.test("names of this host are accepted, with or without a port", async () => {
  for (
    const host of ["localhost", "LOCALHOST:8080", "127.0.0.1:10249", "127.1.2.3", "[::1]", "[::1]:1"]
  ) assert.equal((await statusFor(host)).status, 200, host);
});

Deno.test("other names are rejected with an explanation, so that DNS rebinding fails", async () => {
  for (
    const host of [
      "",
      "evil.example",
      "localhost.evil.example",
      "evil.example:10249",
      "127.0.0.1.evil.example",
      "127.0.0.1@evil.example",
      "192.0.2.7:10249",
      "[::2]",
      "localhost:80:80",
      "0x7f000001",
    ]
  ) {
    const { status, body } = await statusFor(host);
    assert.equal(status, 403, host);
    assert.match(body, /ssh -L 10249:localhost:10249 NODE/);
  }
});

Deno.test("requests from other hosts are rejected for any name, and so are methods that could change something", async () => {
  assert.equal((await statusFor("localhost", { isFromThisHost: false })).status, 403);
  assert.equal((await statusFor("192.0.2.7:10249", { isFromThisHost: false })).status, 403);
  assert.equal((await statusFor("localhost", { method: "POST" })).status, 405);
  assert.equal((await statusFor("localhost", { method: "HEAD" })).status, 200);
});

Deno.test("the suggested tunnel ends at a loopback address of the server, or the answer says how to get one", async () => {
  for (
    const [bound, advice] of [
      ["0.0.0.0:1", "ssh -L 1:localhost:1 NODE"],
      ["[::]:2", "ssh -L 2:localhost:2 NODE"],
      ["127.0.0.2:3", "ssh -L 3:127.0.0.2:3 NODE"],
      ["[fd00::1]:4", "listens at fd00::1 alone: to open the page, set metricsBindAddress to 127.0.0.1:4"],
    ] as const
  ) {
    const handler = localOnly(bound, () => textAnswer(200, "secret"));
    const { body } = await statusFor("evil.example", { handler, isFromThisHost: false });
    assert.ok(body.includes(advice), body);
  }
});

Deno.test("a client at an address of this host may be a proxy, so that it is not on this host", async () => {
  const own = Deno.networkInterfaces().map(({ address }) => canonicalAddress(address))
    .find((address) => address !== undefined && !isLoopback(address) && !address.startsWith("fe80:"));
  const listener = listenHttp({
    address: own ?? "127.0.0.1",
    port: 0,
    handler: ({ isFromThisHost }) => textAnswer(200, String(isFromThisHost)),
    clock: createFakeClock(),
    logger: silentLogger,
  });
  try {
    const answer = await send(joinHostPort(own ?? "127.0.0.1", listener.port), "GET / HTTP/1.0\r\n\r\n");
    assert.equal(answer.split("\r\n\r\n")[1], String(own === undefined));
  } finally {
    listener.close();
  }
});

Deno.test("a loopback client is on this host; the host comes from the header or an absolute target", async () => {
  const listener = listenHttp({
    address: "127.0.0.1",
    port: 0,
    handler: ({ host, isFromThisHost }) => textAnswer(200, `${host} ${isFromThisHost}`),
    clock: createFakeClock(),
    logger: silentLogger,
  });
  try {
    const answer = async (request: string) => (await send(`127.0.0.1:${listener.port}`, request)).split("\r\n\r\n")[1];
    assert.equal(await answer("GET / HTTP/1.1\r\nAccept: x\r\nhOst:  a.example:1 \r\n\r\n"), "a.example:1 true");
    assert.equal(await answer("GET http://b.example/x HTTP/1.1\r\nHost: localhost\r\n\r\n"), "b.example true");
    assert.equal(await answer("GET / HTTP/1.0\r\n\r\n"), " true");
  } finally {
    listener.close();
  }
});
