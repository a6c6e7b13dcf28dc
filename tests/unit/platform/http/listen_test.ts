import assert from "node:assert/strict";
import { textAnswer } from "../../../../platform/http/http.ts";
import { listenHttp } from "../../../../platform/http/server.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

/** Records requested addresses and opens loopback ports instead; fails for those in `failing`. */
function recorder(failing: Readonly<Record<string, () => Error>>) {
  const requested: string[] = [];
  const open = ({ hostname, port }: { hostname: string; port: number }) => {
    requested.push(`${hostname} ${port === 0 ? "any" : "same"}`);
    const failure = failing[hostname];
    if (failure) throw failure();
    return Deno.listen({ hostname: "127.0.0.1", port: 0 });
  };
  return { requested, open };
}

function listen(address: string, open: ReturnType<typeof recorder>["open"]) {
  return listenHttp({
    address,
    port: 0,
    handler: () => textAnswer(200, "hello"),
    clock: createFakeClock(),
    logger: silentLogger,
    open,
  });
}

const taken = () => new Deno.errors.AddrInUse("taken");

Deno.test("the unspecified address of either family means all addresses of both", async () => {
  for (const address of ["0.0.0.0", "::"]) {
    const { requested, open } = recorder({ "0.0.0.0": taken });
    const listener = listen(address, open);
    assert.equal(await (await fetch(`http://127.0.0.1:${listener.port}`)).text(), "hello");
    assert.deepEqual(requested, [":: any", "0.0.0.0 same"], "the second fails because the first accepts IPv4 too");
    listener.close();
  }
});

Deno.test("two sockets share a port if IPv6 sockets do not accept IPv4", () => {
  const { requested, open } = recorder({});
  listen("::", open).close();
  assert.deepEqual(requested, [":: any", "0.0.0.0 same"]);
});

Deno.test("a host without IPv6 listens on IPv4", async () => {
  const { requested, open } = recorder({ "::": () => new Error("Address family not supported by protocol") });
  const listener = listen("::", open);
  assert.equal(await (await fetch(`http://127.0.0.1:${listener.port}`)).text(), "hello");
  assert.deepEqual(requested, [":: any", "0.0.0.0 any"]);
  listener.close();
});

Deno.test("a port in use or forbidden is an error, not a host without IPv6", () => {
  for (const failure of [taken, () => new Deno.errors.PermissionDenied("below 1024")]) {
    const { requested, open } = recorder({ "::": failure });
    assert.throws(() => listen("0.0.0.0", open), failure().constructor);
    assert.deepEqual(requested, [":: any"]);
  }
});

Deno.test("a specific address is opened alone", () => {
  const { requested, open } = recorder({});
  listen("127.0.0.1", open).close();
  assert.deepEqual(requested, ["127.0.0.1 any"]);
});

Deno.test("if the second of two sockets cannot be opened, the first one is closed", async () => {
  const opened: number[] = [];
  const { open } = recorder({ "0.0.0.0": () => new Deno.errors.PermissionDenied("a limit of open files") });
  const noted: typeof open = (options) => {
    const listener = open(options);
    opened.push((listener.addr as Deno.NetAddr).port);
    return listener;
  };
  assert.throws(() => listen("::", noted), Deno.errors.PermissionDenied);
  await assert.rejects(Deno.connect({ hostname: "127.0.0.1", port: opened[0]! }), Deno.errors.ConnectionRefused);
});
