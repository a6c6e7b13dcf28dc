/** A network without a way out: the kernel tracks flows, and translates their addresses, before it drops their packets. */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { createProcessRunner } from "../../backends/tools/process_runner.ts";
import type { Family } from "../../core/model/mod.ts";
import { requireIsolation } from "../../demo/isolate.ts";
import { systemClock } from "../../platform/clock.ts";
import { searchPath } from "../../platform/host.ts";

/** Runs the tools of this machine. */
export const runner = createProcessRunner({ clock: systemClock, path: searchPath() });

/** Runs a program that must succeed, without the time limits of `runner`; resolves with its standard output. */
export async function run(program: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(program, { args, env: { PATH: searchPath() } }).output();
  const text = new TextDecoder();
  assert.equal(code, 0, `${program} ${args.join(" ")}: ${text.decode(stderr)}`);
  return text.decode(stdout);
}

/** The addresses of a family; all but `node` are routed to a device that drops its packets. */
export interface Network {
  readonly node: string;
  readonly prefixLength: number;
  readonly pod: (index: number) => string;
  readonly service: (index: number) => string;
  readonly conntrackFamily: string;
}

const NETWORKS: Readonly<Record<Family, Network>> = {
  IPv4: {
    node: "10.7.0.1",
    prefixLength: 32,
    pod: (index) => `10.244.1.${index}`,
    service: (index) => `10.96.0.${index}`,
    conntrackFamily: "ipv4",
  },
  IPv6: {
    node: "fd00:7::1",
    prefixLength: 128,
    pod: (index) => `fd00:244:1::${index}`,
    service: (index) => `fd00:96::${index}`,
    conntrackFamily: "ipv6",
  },
};

/** Creates a network whose only device drops all packets. Throws if this process is not isolated. */
export async function createBlackhole(family: Family): Promise<Network> {
  requireIsolation();
  // A failed test may have left its own.
  await removeBlackhole().catch(() => {});
  const network = NETWORKS[family], version = family === "IPv4" ? "-4" : "-6";
  await run("ip", "link", "add", "blackhole", "type", "veth", "peer", "name", "blackhole-peer");
  await run(
    "ip",
    version,
    "addr",
    "add",
    `${network.node}/${network.prefixLength}`,
    "dev",
    "blackhole",
    ...nodad(family),
  );
  for (const device of ["blackhole-peer", "blackhole"]) await run("ip", "link", "set", device, "up", "arp", "off");
  await run("ip", version, "route", "add", "default", "dev", "blackhole");
  return network;
}

const nodad = (family: Family) => family === "IPv6" ? ["nodad"] : [];

/** Removes the network and all flows. */
export async function removeBlackhole(): Promise<void> {
  await run("conntrack", "-F");
  await run("ip", "link", "del", "blackhole");
}

/**
 * Sends one datagram and resolves when its flow is tracked. `sourcePort` should be below 32768: the kernel gives ports from there on
 * to any socket, and a test would count its flows, too.
 */
export async function send(family: Family, sourcePort: number, to: string, port: number): Promise<void> {
  const socket = createSocket(family === "IPv4" ? "udp4" : "udp6");
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  socket.on("error", reject);
  socket.bind(sourcePort, () => socket.send("?", port, to, (error) => error ? reject(error) : resolve()));
  await promise;
  socket.close();
}

/** The addresses that answer the tracked flows, by source port; only flows whose source port matches. */
export async function answeringAddresses(
  { conntrackFamily }: Network,
  sourcePorts: RegExp,
): Promise<Record<string, string>> {
  const listed = await run("conntrack", "-L", "-p", "udp", "-f", conntrackFamily);
  const answeredBy: Record<string, string> = {};
  for (const line of listed.split("\n")) {
    const source = /sport=(\d+) /.exec(line)?.[1], answer = [...line.matchAll(/src=(\S+)/g)].at(1);
    if (source !== undefined && sourcePorts.test(source) && answer) answeredBy[source] = answer[1]!;
  }
  return answeredBy;
}
