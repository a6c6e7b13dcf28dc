/**
 * Shows Sluice without a cluster: a node, its pods and a client in network namespaces, with the services of
 * deploy/example/ and real connections. Changes nothing on the machine.
 *
 *     deno task demo
 *
 * SLUICE_BINARY=dist/sluice runs the executable instead of the source.
 */
import { systemClock } from "../platform/clock.ts";
import type { Attempt, Outcome } from "./agent.ts";
import { createLab, type Lab, type Namespace, NETWORK } from "./lab.ts";
import { missingPrerequisite } from "./prerequisites.ts";
import { fetchPackages, isIsolated, isolate } from "./isolate.ts";
import { startSluice } from "./sluice.ts";

const CONNECTIONS = 12;
const CHANGE_WITHIN_MS = 10_000;

interface Probe {
  readonly who: string;
  readonly from: Namespace;
  readonly what: string;
  readonly target: Omit<Attempt, "timeoutMs">;
}

const PROBES: readonly Probe[] = [
  probe("pod-1", "pod-1", "web: cluster IP", "10.96.0.10", 80),
  probe("pod-1", "pod-1", "web: cluster IP, IPv6", "fd00:10:96::a", 80),
  probe("the node", "node", "web: cluster IP", "10.96.0.10", 80),
  probe("pod-1", "pod-1", "names: cluster IP, UDP", "10.96.0.53", 53, "udp"),
  probe("pod-1", "pod-1", "sessions: affinity", "10.96.0.40", 80),
  probe("a client outside", "outside", "shop: node port", NETWORK.node.IPv4, 30080),
  probe("a client outside", "outside", "edge: load balancer, Local", "198.51.100.20", 80),
  probe("pod-1", "pod-1", "empty: no endpoints", "10.96.0.50", 80),
];

function probe(
  who: string,
  from: Namespace,
  what: string,
  address: string,
  port: number,
  protocol: Attempt["protocol"] = "tcp",
): Probe {
  return { who, from, what, target: { protocol, address, port } };
}

/** Opens the connections of a probe one after the other. */
async function outcomesOf(lab: Lab, { from, target }: Probe, count = CONNECTIONS): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (let i = 0; i < count; i++) outcomes.push(await lab.connect(from, target));
  return outcomes;
}

function row({ who, what, target }: Probe, outcomes: readonly Outcome[]): string[] {
  const sources = outcomes.map((outcome) => outcome.kind === "answered" ? sourceName(outcome.sourceSeen) : "");
  const host = target.address.includes(":") ? `[${target.address}]` : target.address;
  return [who, what, `${host}:${target.port}`, counted(outcomes.map(outcomeName)), distinct(sources).join(", ")];
}

function outcomeName(outcome: Outcome): string {
  return outcome.kind === "answered" ? outcome.by : outcome.kind === "failed" ? outcome.reason : outcome.kind;
}

function counted(names: readonly string[]): string {
  return distinct(names).sort().map((name) => `${name} ×${names.filter((other) => other === name).length}`).join("  ");
}

function distinct(names: readonly string[]): string[] {
  return [...new Set(names)].filter((name) => name !== "");
}

function sourceName(address: string): string {
  const { node, podGateway, client, pods } = NETWORK;
  const known = [
    ["the node", node],
    ["the node", podGateway],
    ["the client", client],
    ...Object.entries(pods),
  ] as const;
  return known.find(([, { IPv4, IPv6 }]) => IPv4 === address || IPv6 === address)?.[0] ?? address;
}

/** Removes a pod from the slice in the demo's copy of a manifest, as if it had become unready. */
function removeEndpoint(manifests: string, file: string, address: string): void {
  const path = `${manifests}/${file}`;
  const kept = Deno.readTextFileSync(path).split("\n").filter((line) => !line.includes(`[${address}]`));
  Deno.writeTextFileSync(path, kept.join("\n"));
}

/** Resolves with the milliseconds until connections stop reaching the pod. */
async function timeUntilGone(lab: Lab, watched: Probe, pod: string): Promise<number> {
  const start = systemClock.monotonic();
  let last = start;
  for (let clean = 0; clean < 2 * CONNECTIONS;) {
    const [outcome] = await outcomesOf(lab, watched, 1);
    if (outcome!.kind === "answered" && outcome!.by === pod) {
      clean = 0;
      last = systemClock.monotonic();
      if (last - start > CHANGE_WITHIN_MS) throw new Error(`${pod} still answers after ${CHANGE_WITHIN_MS / 1000} s`);
    } else clean++;
  }
  return Math.round(last - start);
}

async function show(): Promise<void> {
  const manifests = "/run/sluice-demo";
  Deno.mkdirSync(manifests);
  const example = new URL("../deploy/example/", import.meta.url).pathname;
  for (const { name } of Deno.readDirSync(example)) Deno.copyFileSync(example + name, `${manifests}/${name}`);

  console.log("Creating a node, two pods and an external client in network namespaces …");
  const lab = await createLab();
  console.log("Starting Sluice in the node, with the services of deploy/example/ …");
  const sluice = startSluice(lab, manifests, systemClock);
  try {
    const started = systemClock.monotonic();
    await sluice.ready();
    console.log(`Services answer after ${((systemClock.monotonic() - started) / 1000).toFixed(1)} s.\n`);

    const heading = ["client", "service", "address", `answered by (${CONNECTIONS} connections)`, "source seen"];
    const rows: string[][] = [];
    for (const each of PROBES) rows.push(row(each, await outcomesOf(lab, each)));
    console.log(table([heading, ...rows]) + "\n");

    const web = PROBES[0]!;
    console.log("Removing pod-2 from web …");
    removeEndpoint(manifests, "web.yaml", NETWORK.pods["pod-2"].IPv4);
    const tookMs = await timeUntilGone(lab, web, "pod-2");
    console.log(`The last connection to pod-2 was ${tookMs} ms after the file changed.\n`);
    console.log(table([heading, row(web, await outcomesOf(lab, web))]) + "\n");
  } catch (error) {
    console.error(`\nSluice's log:\n${sluice.log()}`);
    throw error;
  } finally {
    await sluice.stop();
    await lab.close();
  }
  console.log("Sluice has stopped; the namespaces and their rules are gone.");
}

async function start(): Promise<number> {
  const missing = await missingPrerequisite(console.log);
  if (missing !== undefined) {
    console.error(missing);
    return 1;
  }
  const files = [
    "./main.ts",
    "../main.ts",
    "../workers/family.ts",
    "../workers/plugin.ts",
    "../workers/relay.ts",
    "./agent.ts",
  ];
  const modules = files.map((file) => new URL(file, import.meta.url).pathname);
  console.log("Fetching missing packages …");
  await fetchPackages(modules);
  return await isolate([Deno.execPath(), "run", "--quiet", "--cached-only", "--allow-all", modules[0]!]);
}

if (import.meta.main) {
  try {
    Deno.exit(isIsolated() ? (await show(), 0) : await start());
  } catch (error) {
    console.error(`The demo failed: ${error instanceof Error ? error.message : error}`);
    Deno.exit(1);
  }
}

/** Aligns the columns of a table; the first row is the heading, which is underlined. */
function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => [...row[column] ?? ""].length)));
  const line = (row: readonly string[]) => row.map((cell, i) => cell.padEnd(widths[i]!)).join("  ").trimEnd();
  const [heading, ...body] = rows;
  return [line(heading!), widths.map((width) => "─".repeat(width)).join("  "), ...body.map(line)].join("\n");
}
