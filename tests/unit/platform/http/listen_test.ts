import assert from "node:assert/strict";
import { textAnswer } from "../../../../platform/http/http.ts";
import { listenHttp } from "../../../../platform/http/listen.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

/** Opens loopback ports in place of what is asked for, unless that is among `failing`. */
function recorder(failing: Readonly<Record<string, () => Error>>) {
  const asked: string[] = [];
  const open = ({ hostname, port }: { hostname: string; port: number }) => {
    asked.push(`${hostname} ${port === 0 ? "any" : "same"}`);
    const failure = failing[hostname];
    if (failure) throw failure();
    return Deno.listen({ hostname: "127.0.0.1", port: 0 });
  };
  return { asked, open };
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

Deno.test("an unspecified address of either family stands for all addresses of both", async () => {
  for (const address of ["0.0.0.0", "::"]) {
    const { asked, open } = recorder({ "0.0.0.0": taken });
    const listener = listen(address, open);
    assert.equal(await (await fetch(`http://127.0.0.1:${listener.port}`)).text(), "hello");
    assert.deepEqual(asked, [":: any", "0.0.0.0 same"], "the second is refused where the first takes IPv4 too");
    listener.close();
  }
});

Deno.test("where IPv6 sockets take no IPv4, there are two, on the same port", () => {
  const { asked, open } = recorder({});
  listen("::", open).close();
  assert.deepEqual(asked, [":: any", "0.0.0.0 same"]);
});

Deno.test("a host without IPv6 listens on IPv4", async () => {
  const { asked, open } = recorder({ "::": () => new Error("Address family not supported by protocol") });
  const listener = listen("::", open);
  assert.equal(await (await fetch(`http://127.0.0.1:${listener.port}`)).text(), "hello");
  assert.deepEqual(asked, [":: any", "0.0.0.0 any"]);
  listener.close();
});

Deno.test("a port that is taken, or forbidden, is not taken for a host without IPv6", () => {
  for (const failure of [taken, () => new Deno.errors.PermissionDenied("below 1024")]) {
    const { asked, open } = recorder({ "::": failure });
    assert.throws(() => listen("0.0.0.0", open), failure().constructor);
    assert.deepEqual(asked, [":: any"]);
  }
});

Deno.test("any other address is opened as it is", () => {
  const { asked, open } = recorder({});
  listen("127.0.0.1", open).close();
  assert.deepEqual(asked, ["127.0.0.1 any"]);
});
