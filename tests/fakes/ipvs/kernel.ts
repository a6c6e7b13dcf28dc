import { prefixContains } from "../../../platform/address.ts";
import type { PacketInFlight } from "../iptables/packet.ts";
import { PROTOCOL_NUMBERS } from "../packet.ts";

/** A real server in the kernel. */
export interface FakeRealServer {
  weight: number;
  active: number;
  inactive: number;
  /** The connections that it was chosen for, of one packet each. */
  connections: number;
}

/** A virtual server in the kernel. */
export interface FakeVirtualServer {
  scheduler: string;
  /** 0 without persistence. */
  persistentSeconds: number;
  /** The scheduler flags as ipvsadm prints them; empty for none. */
  flags: string;
  readonly reals: Map<string, FakeRealServer>;
  /** The persistent real server of each client, and when it expires. */
  readonly clients: Map<string, { readonly real: string; readonly untilMs: number }>;
}

/** A set in the kernel. */
export interface FakeSet {
  readonly type: string;
  /** The part of its `create` line after the type. */
  readonly options: string;
  readonly entries: Set<string>;
}

/** The kernel's state for IPVS mode; tests may change it as another program would. */
export interface IpvsKernel {
  /** By ipvsadm's arguments: `-t 10.96.0.10:80`, or `-f 1` for a firewall mark. */
  readonly servers: Map<string, FakeVirtualServer>;
  readonly sets: Map<string, FakeSet>;
  /**
   * The connections of removed real servers by `SERVER REAL`. The kernel keeps them for two minutes, and the fake for
   * ever, in case that the real server comes back.
   */
  readonly removedReals: Map<string, number>;
  /** Addresses with prefix length by interface. */
  readonly interfaces: Map<string, Set<string>>;
  /** The rest of each local route that marks a held address, by address. */
  readonly localRoutes: Map<string, string>;
  /** The available schedulers. */
  readonly schedulers: Set<string>;
  /** The timeouts of TCP, of TCP after FIN, and of UDP, in seconds. */
  timeouts: readonly number[];
  /** Whether the kernel supports IPVS. */
  hasIpvs: boolean;
}

/** Creates a kernel with these addresses besides loopback. */
export function createIpvsKernel(nodeAddresses: readonly string[]): IpvsKernel {
  return {
    servers: new Map(),
    sets: new Map(),
    removedReals: new Map(),
    interfaces: new Map([
      ["lo", new Set(["127.0.0.1/8", "::1/128"])],
      ["eth0", new Set([...nodeAddresses.map((address) => `${address}/${bits(address) - 8}`), "fe80::1/64"])],
    ]),
    localRoutes: new Map(),
    schedulers: new Set(["rr", "wrr", "sh", "mh"]),
    timeouts: [900, 120, 300],
    hasIpvs: true,
  };
}

/** The number of bits of an address. */
export function bits(address: string): number {
  return address.includes(":") ? 128 : 32;
}

/** Whether the kernel takes packets to the address. */
export function takesAddress(kernel: IpvsKernel, address: string): boolean {
  return kernel.localRoutes.has(address) || hasAddress(kernel, address);
}

/** Whether an interface of the kernel has the address. */
export function hasAddress({ interfaces }: IpvsKernel, address: string): boolean {
  return [...interfaces.values()].some((all) => [...all].some((prefix) => prefix.startsWith(`${address}/`)));
}

const PROTOCOL_NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(PROTOCOL_NUMBERS).map(([name, number]) => [number, name]),
);

/** Whether a set contains a packet, looked up by these sides of it: `dst,dst,src`. False if the set does not exist. */
export function isInSet({ sets }: IpvsKernel, name: string, packet: PacketInFlight, sides: readonly string[]): boolean {
  const set = sets.get(name);
  if (!set) return false;
  const protocol = PROTOCOL_NAMES.get(packet.protocol)!;
  const words = set.type.split(":")[1]!.split(",").map((dimension, i) => {
    const side = sides[i] === "src" ? "source" : "destination";
    if (dimension !== "port") return packet[side].text;
    const port = side === "source" ? packet.sourcePort : packet.destinationPort;
    return set.type === "bitmap:port" ? String(port) : `${protocol}:${port}`;
  });
  if (!set.type.endsWith(",net")) return set.entries.has(words.join(","));
  const [address, port, source] = words;
  return [...set.entries].some((entry) => {
    const [entryAddress, entryPort, net] = entry.split(",");
    const prefix = net!.includes("/") ? net! : `${net}/${bits(net!)}`;
    return entryAddress === address && entryPort === port && prefixContains(prefix, source!);
  });
}
