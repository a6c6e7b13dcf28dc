/**
 * Simulated nodes in one process, each watching over its own connection. They count bytes and request the next round after
 * each one, but do not decode: the cost of decoding is on real nodes, not on the server under test.
 */
import { connect } from "node:http2";
import { framesOf } from "../../kpng/transport/grpc.ts";
import { METHODS, WATCH_REQUEST } from "../../kpng/messages/messages.ts";
import { SYNC } from "../../kpng/views/operations.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import { nodeName } from "./cluster.ts";
import { answerLines } from "./lines.ts";

const [port, count] = Deno.args.slice(0, 2).map(Number) as [number, number];
const scope = Deno.args[2] === "local" ? "local" : "global";
const WINDOW_BYTES = 1024 * 1024;
const END_OF_ROUND = framesOf([SYNC]);

interface Client {
  bytes: number;
  rounds: number;
  lastSyncMs: number;
}

/** The number of clients that connect concurrently; the nodes of a real cluster do not all start at the same moment. */
const AT_ONCE = Number(Deno.args[3] ?? 50);

const clients: Client[] = [];
const startedMs = Date.now();
for (let i = 0; i < count; i++) {
  clients.push(watch(i));
  while (clients.filter(({ rounds }) => rounds === 0).length >= AT_ONCE) await sleep(systemClock, 2);
}

function watch(index: number): Client {
  const client: Client = { bytes: 0, rounds: 0, lastSyncMs: 0 };
  const request = framesOf([WATCH_REQUEST.encode(
    scope === "local" ? { nodeName: nodeName(index), extended: true } : { extended: true, onlyNode: nodeName(index) },
  )]);
  // As in sources/grpc.
  const session = connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: WINDOW_BYTES } });
  session.on("connect", () => session.setLocalWindowSize(WINDOW_BYTES));
  session.on("error", (error) => console.error(error));
  const stream = session.request({
    ":method": "POST",
    ":path": METHODS[scope],
    "content-type": "application/grpc",
    te: "trailers",
  });
  stream.on("error", (error) => console.error(error));
  let tail = new Uint8Array(0);
  stream.on("data", (bytes: Uint8Array) => {
    client.bytes += bytes.length;
    const joined = new Uint8Array(tail.length + bytes.length);
    joined.set(tail);
    joined.set(bytes, tail.length);
    tail = joined.slice(-END_OF_ROUND.length);
    if (tail.length < END_OF_ROUND.length || !tail.every((byte, i) => byte === END_OF_ROUND[i])) return;
    client.rounds++;
    client.lastSyncMs = Date.now();
    stream.write(request);
  });
  stream.write(request);
  return client;
}

await answerLines(async (line) => {
  // Wait until every client has completed a round since then, and no round has completed for a second.
  const sinceMs = Number(line);
  while (clients.some(({ lastSyncMs }) => lastSyncMs < Math.max(1, sinceMs))) await sleep(systemClock, 20);
  while (Date.now() - Math.max(...clients.map((client) => client.lastSyncMs)) < 1000) await sleep(systemClock, 20);
  return {
    startedMs,
    bytes: clients.reduce((sum, { bytes }) => sum + bytes, 0),
    rounds: clients.reduce((sum, { rounds }) => sum + rounds, 0),
    lastSyncMs: Math.max(...clients.map((client) => client.lastSyncMs)),
    rss: Deno.memoryUsage().rss,
  };
});
