/** Connections of a node and of a client outside to a service while something happens to it. */
import { FAMILIES, type Family } from "../../platform/mod.ts";
import { inTime } from "../chaos/wait.ts";
import { type Addresses, addressesOf, type Cluster, sh } from "./cluster.ts";
import { balance, type Frontends, type Protocol } from "./pods.ts";
import type { Tally, Target } from "./traffic.ts";

const SERVED_WITHIN_MS = 90_000;
const SERVICE_PORTS = { tcp: 80, udp: 80 };

/** The share of connections that may be lost while pods end: with too few processors, some end before the proxies hear of it. */
export const MOST_LOST = 1 / 200;

/** The node through which connections come from outside. */
export const ENTRY = "node1";

/** The node from which connections to cluster IPs come. */
const CLIENT = "node3";

/** Targets by the place from which connections to them come. */
export interface Targets {
  readonly onNode: readonly Target[];
  readonly outside: readonly Target[];
}

/** The tallies of all targets, by name. */
export type Tallies = Readonly<Record<string, Tally>>;

/** Gives a Service addresses of a load balancer, which are routed to one node. */
export async function balanceThroughEntry(cluster: Cluster, name: string, addresses: Addresses): Promise<void> {
  await balance(cluster, name, addresses);
  const via = addressesOf(ENTRY);
  await sh(FAMILIES.map((family) => `ip route replace ${addresses[family]} via ${via[family]}`).join("\n"));
}

/** All frontends of a Service, as targets of new connections, or of long ones. */
export function frontendsOf({ clusterIPs, nodePorts }: Frontends, balancer: Addresses, isLong: boolean): Targets {
  const all = (frontend: string, addresses: Addresses, ports: Readonly<Record<Protocol, number>>): Target[] =>
    FAMILIES.flatMap((family) =>
      (["tcp", "udp"] as const).map((protocol) => ({
        name: nameOf(frontend, family, protocol, isLong),
        protocol,
        address: addresses[family],
        port: ports[protocol],
        isLong,
      }))
    );
  return {
    onNode: all("cluster IP from a node", clusterIPs, SERVICE_PORTS),
    outside: [
      ...all("node port from outside", addressesOf(ENTRY), nodePorts),
      ...all("load balancer IP from outside", balancer, SERVICE_PORTS),
    ],
  };
}

function nameOf(frontend: string, family: Family, protocol: Protocol, isLong: boolean): string {
  return `${isLong ? "long: " : ""}${frontend}, ${family}, ${protocol.toUpperCase()}`;
}

/**
 * Connects to all targets until the event is over.
 * @param event starts once all targets have answered
 */
export async function underTraffic(
  cluster: Cluster,
  { onNode, outside }: Targets,
  event: () => Promise<void>,
): Promise<Tallies> {
  const traffic = [
    cluster.start(CLIENT, trafficCommand(onNode), { stdin: "piped", stdout: "piped" }),
    new Deno.Command("env", { args: trafficCommand(outside), stdin: "piped", stdout: "piped" }).spawn(),
  ];
  const readers = traffic.map(({ stdout }) => stdout.pipeThrough(new TextDecoderStream()).getReader());
  try {
    await inTime("all targets answer", SERVED_WITHIN_MS, Promise.all(readers.map((reader) => reader.read())));
    await event();
  } finally {
    for (const { stdin } of traffic) await stdin.close();
  }
  const tallies = await Promise.all(readers.map(async (reader) => {
    let text = "";
    for (let read = await reader.read(); !read.done; read = await reader.read()) text += read.value;
    return JSON.parse(text) as Tallies;
  }));
  return Object.assign({}, ...tallies);
}

function trafficCommand(targets: readonly Target[]): string[] {
  const script = new URL("./traffic.ts", import.meta.url).pathname;
  const options = ["run", "--quiet", "--cached-only", "--no-check", "--unstable-net", "--allow-net"];
  return [Deno.execPath(), ...options, script, JSON.stringify(targets)];
}

/** The tally of several targets together, with the slowest answer and the longest outage of all. */
export function sumOf(tallies: readonly Tally[]): Omit<Tally, "examples"> {
  return tallies.reduce((total, one) => ({
    attempts: total.attempts + one.attempts,
    failures: total.failures + one.failures,
    slowestMs: Math.max(total.slowestMs, one.slowestMs),
    outageMs: Math.max(total.outageMs, one.outageMs),
  }), { attempts: 0, failures: 0, slowestMs: 0, outageMs: 0 });
}

/** Prints the first failures of each target. */
export function printFailures(tallies: Tallies): void {
  for (const [name, { failures, examples }] of Object.entries(tallies)) {
    if (failures > 0) console.log(`${name}: ${failures} lost: ${examples.join("; ")}`);
  }
}
