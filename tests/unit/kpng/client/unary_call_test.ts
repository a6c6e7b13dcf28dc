import assert from "node:assert/strict";
import { unaryCall } from "../../../../kpng/client/mod.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

Deno.test("a call on a closed connection fails at once, and leaves no timeout behind", async () => {
  const clock = createFakeClock();
  const connection = {
    request() {
      throw new Error("closed");
    },
    isOpen: () => false,
    close() {},
  };
  const call = { method: "/a/B", request: new Uint8Array(), maxMessageBytes: 1, timeoutMs: 5_000, clock };
  await assert.rejects(unaryCall(connection, call), /closed/);
  assert.deepEqual(clock.pending(), []);
});
