import { prefixContains } from "../../../platform/address.ts";
import type { PacketInFlight } from "../iptables/packet.ts";
import { PROTOCOL_NUMBERS } from "../packet.ts";

/** A real server as the kernel has it. */
export interface FakeRealServer {
  weight: number;
  active: number;
  inactive: number;
}

/** A virtual server as the kernel has it. */
export interface FakeVirtualServer {
  scheduler: string;
  /** 0 where clients are not kept. */
  persistentSeconds: number;
  /** What else its definition says, as ipvsadm writes it; empty for nothing. */
  flags: string;
  readonly reals: Map<string, FakeRealServer>;
  /** Which client is kept where, and until when. */
  readonly clients: Map<string, { readonly real: string; readonly untilMs: number }>;
}

/** A set as the kernel has it. */
export interface FakeSet {
  readonly type: string;
  /** What follows the type in its `create` line. */
  readonly options: string;
  readonly entries: Set<string>;
}

/** What a kernel holds of IPVS and what belongs to it; tests may change it, as another program would. */
export interface IpvsKernel {
  /** By the words with which ipvsadm names them: `-t 10.96.0.10:80`; `-f 1` for a firewall mark. */
  readonly servers: Map<string, FakeVirtualServer>;
  readonly sets: Map<string, FakeSet>;
  /** The addresses with prefix length, by interface. */
  readonly interfaces: Map<string, Set<string>>;
  /** The schedulers that there is a module of. */
  readonly schedulers: Set<string>;
  /** The timeouts of TCP, of TCP after its end, and of UDP, in seconds. */
  timeouts: readonly number[];
  /** Whether there is IPVS at all. */
  hasIpvs: boolean;
}

/** A kernel whose interfaces have these addresses beside loopback. */
export function createIpvsKernel(nodeAddresses: readonly string[]): IpvsKernel {
  return {
    servers: new Map(),
    sets: new Map(),
    interfaces: new Map([
      ["lo", new Set(["127.0.0.1/8", "::1/128"])],
      ["eth0", new Set([...nodeAddresses.map((address) => `${address}/${bits(address) - 8}`), "fe80::1/64"])],
    ]),
    schedulers: new Set(["rr", "wrr", "sh", "mh"]),
    timeouts: [900, 120, 300],
    hasIpvs: true,
  };
}

/** How many bits an address has. */
export function bits(address: string): number {
  return address.includes(":") ? 128 : 32;
}

/** Whether the kernel says that an address is its own. */
export function hasAddress({ interfaces }: IpvsKernel, address: string): boolean {
  return [...interfaces.values()].some((all) => [...all].some((prefix) => prefix.split("/")[0] === address));
}

const PROTOCOL_NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(PROTOCOL_NUMBERS).map(([name, number]) => [number, name]),
);

/** Whether a packet is in a set, looked up by these sides of it: `dst,dst,src`. A set that is not there holds nothing. */
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
