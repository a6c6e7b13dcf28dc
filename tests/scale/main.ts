/**
 * Measures the cost of a relay and the load it takes off the API server: many nodes watch one server while pods restart,
 * measured with as many nodes as fit on this machine and extrapolated to a whole cluster (docs/scale.md).
 *
 *   deno task bench:scale [NODES,NODES,… [global|local [SERVICES [JOINING_AT_ONCE [WORKERS]]]]]
 */
import { sleep, systemClock } from "../../platform/clock.ts";
import { listResponse, sliceText } from "../bench/api_text.ts";
import { lineStream } from "./lines.ts";

const COUNTS = (Deno.args[0] ?? "100,300").split(",").map(Number);
const SCOPE = Deno.args[1] ?? "global";
const CLUSTER = { services: Number(Deno.args[2] ?? 10_000), nodes: 7_500 };
/** How many nodes join concurrently. */
const AT_ONCE = Number(Deno.args[3] ?? 50);
/** The workers of the server; those of `sluice serve` by default. */
const WORKERS = Deno.args.slice(4, 5);
const PODS = Math.min(500, CLUSTER.services);
const OVER_MS = 10_000;

/** Starts a process that answers lines. */
function start(script: string, args: readonly (string | number)[]) {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", new URL(script, import.meta.url).pathname, ...args.map(String)],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).pipeThrough(lineStream()).getReader();
  return {
    async ask(line: string): Promise<Record<string, number>> {
      await writer.write(new TextEncoder().encode(`${line}\n`));
      const { value } = await lines.read();
      if (value === undefined) throw new Error(`${script} exited`);
      return JSON.parse(value);
    },
    async end() {
      await writer.close();
      await child.status;
    },
  };
}

interface Measured {
  readonly nodes: number;
  /** From the start of the clients until the last one had the full snapshot. */
  readonly joinMs: number;
  readonly wholeBytes: number;
  readonly restartBytes: number;
  readonly rounds: number;
  readonly lastNodeMs: number;
  readonly oneChangeMs: number;
  readonly joinCpuMs: number;
  readonly restartCpuMs: number;
  readonly emptyRss: number;
  readonly rss: number;
}

async function measure(nodes: number): Promise<Measured> {
  const server = start("server.ts", [CLUSTER.services, CLUSTER.nodes, ...WORKERS]);
  const before = await server.ask("stats");
  const clients = start("clients.ts", [before.port!, nodes, SCOPE, AT_ONCE]);
  const joined = await clients.ask("0");
  const afterJoin = await server.ask("stats");

  const { endedMs: changedMs } = await server.ask("restart 1 0");
  const afterOne = await clients.ask(String(changedMs));

  const beforeRestart = await server.ask("stats");
  const { endedMs } = await server.ask(`restart ${PODS} ${OVER_MS}`);
  const afterRestart = await clients.ask(String(endedMs));
  const after = await server.ask("stats");
  await clients.end();
  await server.end();
  await sleep(systemClock, 500);
  return {
    nodes,
    joinMs: joined.lastSyncMs! - joined.startedMs!,
    wholeBytes: joined.bytes! / nodes,
    restartBytes: (afterRestart.bytes! - afterOne.bytes!) / nodes,
    rounds: (afterRestart.rounds! - afterOne.rounds!) / nodes,
    lastNodeMs: afterRestart.lastSyncMs! - endedMs!,
    oneChangeMs: afterOne.lastSyncMs! - changedMs!,
    joinCpuMs: (afterJoin.cpuMs! - before.cpuMs!) / nodes,
    restartCpuMs: after.cpuMs! - beforeRestart.cpuMs!,
    emptyRss: before.emptyRss!,
    rss: Math.max(afterJoin.rss!, after.rss!),
  };
}

/** Extrapolates linearly from two measurements. */
function extrapolate(a: Measured, b: Measured, nodes: number, value: (measured: Measured) => number): number {
  return value(a) + ((value(b) - value(a)) / (b.nodes - a.nodes)) * (nodes - a.nodes);
}

const kb = (bytes: number) => `${(bytes / 1000).toFixed(0)} kB`;
const mb = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`;
const row = (...cells: readonly (string | number)[]) => console.log(`| ${cells.join(" | ")} |`);

const measured: Measured[] = [];
console.log(
  `${CLUSTER.services} services of 3 endpoints, ${PODS} pods restarted in ${OVER_MS / 1000} s, ${SCOPE} state\n`,
);
row(
  "nodes at one server",
  "full snapshot",
  "all joined after",
  "CPU per joining node",
  "restart, bytes per node",
  "rounds per node",
  "CPU of the restart",
  "one change, last node",
  "after the restart, last node",
  "RSS",
);
row("--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:");
for (const nodes of COUNTS) {
  const one = await measure(nodes);
  measured.push(one);
  row(
    nodes,
    kb(one.wholeBytes),
    `${(one.joinMs / 1000).toFixed(1)} s`,
    `${one.joinCpuMs.toFixed(1)} ms`,
    kb(one.restartBytes),
    one.rounds.toFixed(0),
    `${(one.restartCpuMs / 1000).toFixed(1)} s`,
    `${one.oneChangeMs.toFixed(0)} ms`,
    `${one.lastNodeMs.toFixed(0)} ms`,
    `${mb(one.rss)} (${mb(one.emptyRss)} before the first node)`,
  );
}

const first = measured[0]!, last = measured.at(-1)!;
const lists = listResponse("Service", CLUSTER.services).length + listResponse("EndpointSlice", CLUSTER.services).length;
const events = 2 * PODS * (sliceText(0, 1).length + '{"type":"MODIFIED","object":}\n'.length);
console.log("\nAt the API server, as uncompressed JSON:\n");
row("", "requests at the start", "bytes at the start", "bytes of the restart");
row("---", "--:", "--:", "--:");
row("every node watches the API", 6 * CLUSTER.nodes, mb(CLUSTER.nodes * lists), mb(CLUSTER.nodes * events));
row("one watcher and relays", 8, mb(lists), mb(events));

if (measured.length > 1) {
  console.log(`\nExtrapolated linearly from ${first.nodes} and ${last.nodes} nodes:\n`);
  row("nodes at one server", "RSS", "CPU of the restart", "one change, last node", "bytes sent at the start");
  row("--:", "--:", "--:", "--:", "--:");
  for (const nodes of [Math.ceil(CLUSTER.nodes / 15), CLUSTER.nodes]) {
    row(
      nodes,
      mb(extrapolate(first, last, nodes, ({ rss }) => rss)),
      `${(extrapolate(first, last, nodes, ({ restartCpuMs }) => restartCpuMs) / 1000).toFixed(1)} s`,
      `${extrapolate(first, last, nodes, ({ oneChangeMs }) => oneChangeMs).toFixed(0)} ms`,
      mb(nodes * last.wholeBytes),
    );
  }
}
