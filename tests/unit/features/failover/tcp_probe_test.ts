import assert from "node:assert/strict";
import { probeTcp } from "../../../../features/failover/endpoint_probe.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { reservePort } from "../../../fakes/sockets.ts";

Deno.test("a host that accepts or refuses a connection has answered, and no timer is left", async () => {
  const clock = createFakeClock();
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port: listening } = listener.addr as Deno.NetAddr;
  for (const port of [listening, reservePort()]) {
    assert.equal(await probeTcp({ address: "127.0.0.1", port }, 1_000, clock), "answered");
    assert.deepEqual(clock.pending(), []);
  }
});

Deno.test("a connection that cannot be made is neither an answer nor silence", async () => {
  const result = await probeTcp({ address: "127.0.0.1", port: 65_536 }, 1_000, createFakeClock());
  assert.ok(typeof result === "object" && result.failed !== "");
});

Deno.test("a host that does not answer in time is silent", async () => {
  const clock = createFakeClock();
  const result = probeTcp({ address: "127.0.0.1", port: reservePort() }, 1_000, clock);
  clock.advance(1_000);
  assert.equal(await result, "silent");
});
