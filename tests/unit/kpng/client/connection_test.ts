import assert from "node:assert/strict";
import { openConnection } from "../../../../kpng/client/mod.ts";
import { systemClock } from "../../../../platform/clock.ts";

Deno.test("a connection may be closed at any moment while it is established", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  for (let turns = 0; turns < 20; turns++) {
    const { promise: ended, resolve: onEnd } = Promise.withResolvers<Error>();
    const address = { kind: "tcp", host: "127.0.0.1", port: listener.addr.port } as const;
    const connection = await openConnection({ address, tls: undefined, clock: systemClock, onEnd });
    const accepted = await listener.accept();
    for (let turn = 0; turn < turns; turn++) await Promise.resolve();
    connection.close();
    await ended;
    assert.equal(connection.isOpen(), false);
    accepted.close();
  }
  listener.close();
});
