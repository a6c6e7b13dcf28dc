import assert from "node:assert/strict";
import { Socket } from "node:net";
import { dial, type Dialed } from "../../../relay/connections.ts";
import { createCounters } from "../../../relay/counts.ts";
import { systemNetwork } from "../../../relay/network.ts";
import { type Chooser, createChooser } from "../../../relay/target.ts";
import { createFakeClock } from "../../fakes/clock.ts";

/** Dials endpoints whose sockets do nothing until the test makes them. */
function startDial(...endpoints: string[]) {
  const clock = createFakeClock(), counters = createCounters();
  /** The sockets by endpoint, in the order of the attempts. */
  const attempts = new Map<string, Socket>();
  const settled: (Dialed | undefined)[] = [], late: string[] = [];
  const network = {
    ...systemNetwork,
    connectTcp(endpoint: string) {
      const socket = new Socket();
      attempts.set(endpoint, socket);
      return socket;
    },
  };
  const chooser: Chooser = {
    ...createChooser({ clock }),
    late: (endpoint) => void late.push(endpoint),
  };
  const cancel = dial(
    endpoints.values() as Iterator<string, void, void>,
    { clock, counters, network, chooser, files: { note() {}, touch() {} } },
    (dialed) => settled.push(dialed),
  );
  return { clock, counters, attempts, settled, late, cancel };
}

const refuse = (socket: Socket | undefined) => socket!.emit("error", new Error("ECONNREFUSED"));

Deno.test("the first endpoint that accepts wins, also one that was slower than its head start", () => {
  const { clock, attempts, settled } = startDial("a", "b", "c");
  clock.advance(250);
  assert.deepEqual([...attempts.keys()], ["a", "b"]);
  attempts.get("a")!.emit("connect");
  assert.deepEqual(settled.map((dialed) => dialed?.endpoint), ["a"]);
  assert.ok(attempts.get("b")!.destroyed);
  assert.deepEqual(clock.pending(), []);
});

Deno.test("a refusal starts the next attempt at once, with a head start of its own", () => {
  const lab = startDial("a", "b", "c");
  lab.clock.advance(200);
  refuse(lab.attempts.get("a"));
  assert.deepEqual([...lab.attempts.keys()], ["a", "b"]);
  lab.clock.advance(249);
  assert.equal(lab.attempts.size, 2);
  lab.clock.advance(1);
  assert.deepEqual([...lab.attempts.keys()], ["a", "b", "c"]);
  assert.equal(lab.counters.failovers, 2);
});

Deno.test("it fails once all have refused, and not before the slowest has answered", () => {
  const { clock, attempts, settled } = startDial("a", "b");
  clock.advance(250);
  refuse(attempts.get("b"));
  assert.deepEqual(settled, []);
  refuse(attempts.get("a"));
  assert.deepEqual(settled, [undefined]);
  assert.deepEqual(clock.pending(), []);
});

Deno.test("it fails when the time is over, and closes all attempts", () => {
  const { clock, attempts, settled } = startDial("a", "b");
  clock.advance(10_000);
  assert.deepEqual(settled, [undefined]);
  assert.ok([...attempts.values()].every(({ destroyed }) => destroyed));
});

Deno.test("no more than four attempts run at a time", () => {
  const { clock, attempts } = startDial("a", "b", "c", "d", "e", "f");
  clock.advance(250 * 5);
  const running = [...attempts].filter(([, { destroyed }]) => !destroyed).map(([endpoint]) => endpoint);
  assert.deepEqual(running, ["c", "d", "e", "f"]);
});

Deno.test("a cancelled dial closes its attempts and reports nothing", () => {
  const { clock, attempts, settled, cancel } = startDial("a", "b");
  cancel();
  attempts.get("a")!.emit("connect");
  clock.advance(20_000);
  assert.deepEqual(settled, []);
  assert.ok(attempts.get("a")!.destroyed);
  assert.equal(attempts.size, 1);
});

Deno.test("endpoints that refuse or do not answer within their head start are late, even without another one to try", () => {
  const { clock, attempts, late } = startDial("a", "b");
  clock.advance(249);
  assert.deepEqual(late, []);
  clock.advance(1);
  refuse(attempts.get("b"));
  assert.deepEqual(late, ["a", "b"]);
  const only = startDial("a");
  only.clock.advance(250);
  assert.deepEqual(only.late, ["a"]);
});
