/**
 * The relay of the simulation in a separate process: serves a store with the whole cluster. Reads one command per line from
 * standard input and answers each with a line of JSON on standard output.
 */
import process from "node:process";
import { KINDS } from "../../core/objects/cluster_object.ts";
import { startServing } from "../../kpng/server/mod.ts";
import { defaultServingWorkers, spawnServingWorker } from "../../workers/serving.ts";
import { createStore } from "../../kpng/store/mod.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import { silentLogger } from "../../platform/log.ts";
import { clusterObjects, rollingRestart } from "./cluster.ts";
import { answerLines } from "./lines.ts";
import { sayProblems } from "../fakes/problems.ts";

const [services, nodes, workers = await defaultServingWorkers()] = Deno.args.map(Number) as [number, number, number?];
const store = createStore({
  clock: systemClock,
  onProblems: sayProblems((where, message) => console.error(where, message)),
});
for (const object of clusterObjects({ services, nodes })) store.set(object);
for (const kind of KINDS) store.synced(kind);
const emptyRss = Deno.memoryUsage().rss;
const address = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
const serving = await startServing({
  address,
  tls: undefined,
  store,
  clock: systemClock,
  logger: silentLogger,
  workers: { count: workers, spawn: spawnServingWorker },
  // All simulated nodes share one address.
  limits: { connectionsPerAddress: nodes },
});
let round = 0;

await answerLines(async (line) => {
  const [command, pods = 0, overMs = 0] = line.split(" ").map((word, i) => i === 0 ? word : Number(word)) as [
    string,
    number?,
    number?,
  ];
  if (command === "restart") {
    round++;
    const startedMs = Date.now();
    let done = 0;
    for (const slice of rollingRestart(pods, round, nodes)) {
      const dueMs = startedMs + (done++ / (2 * pods)) * overMs;
      if (dueMs > Date.now()) await sleep(systemClock, dueMs - Date.now());
      store.set(slice);
    }
    return { endedMs: Date.now() };
  }
  const { user, system } = process.cpuUsage();
  return {
    port: (serving.address as typeof address).port,
    emptyRss,
    rss: Deno.memoryUsage().rss,
    cpuMs: (user + system) / 1000,
    watchers: serving.count("watchers global") + serving.count("watchers local"),
    revision: store.revision(),
  };
});
