/**
 * Virtual and real servers, the operations on them, and their text: `ipvsadm --save -n` prints the same text that
 * `ipvsadm --restore` reads, so the kernel's state is compared as text.
 */
import type { BalanceHash, Family, IpvsSettings, Protocol } from "../../core/model/mod.ts";
import { canonicalAddress, familyOf, joinHostPort, splitHostPort } from "../../platform/mod.ts";
import {
  classifyFailure,
  failureOf,
  failureText,
  type PlaceChange,
  printedInput,
  type Runner,
  runOrThrow,
  type ToolFailure,
} from "../tools/mod.ts";

/** The name of a virtual server, as ipvsadm writes it: `-t 10.96.0.10:80`. */
export type ServerKey = string;

/** A virtual server: how the kernel balances connections to an address and port. */
export interface VirtualServer {
  /** Its scheduler, session affinity and flags, as ipvsadm writes them: `-s rr -p 10800`. */
  readonly definition: string;
  /** Its real servers, as `address:port`, each once. */
  readonly realServers: readonly string[];
  /** The weights of its real servers, in their order, none of them 0; absent if all are 1. */
  readonly weights?: readonly number[];
}

const PROTOCOL_OPTIONS: Readonly<Record<Protocol, string>> = { tcp: "-t", udp: "-u", sctp: "--sctp-service" };

/** The key of a virtual server. */
export function serverKey(protocol: Protocol, address: string, port: number): ServerKey {
  return `${PROTOCOL_OPTIONS[protocol]} ${joinHostPort(address, port)}`;
}

/** The scheduler of a definition. */
export function schedulerIn(definition: string): string {
  return /^-s (\S+)/.exec(definition)?.[1] ?? "";
}

/** The parts of a key; undefined for a virtual server of a firewall mark. */
export function parseServerKey(
  key: ServerKey,
): { readonly protocol: Protocol; readonly address: string; readonly port: number } | undefined {
  const space = key.indexOf(" "), option = key.slice(0, space);
  for (const [protocol, own] of Object.entries(PROTOCOL_OPTIONS)) {
    if (own === option) return { protocol: protocol as Protocol, ...splitHostPort(key.slice(space + 1)) };
  }
  return undefined;
}

/**
 * The definition of a virtual server. The scheduler `mh` hashes the client's port too, as in kube-proxy, unless the service
 * asks for its address alone.
 * @param affinitySeconds how long a client stays with its real server; 0 without session affinity
 */
export function serverDefinition(scheduler: string, affinitySeconds: number, hash: BalanceHash = "flow"): string {
  const persistence = affinitySeconds === 0 ? "" : ` -p ${affinitySeconds}`;
  return `-s ${scheduler}${persistence}${scheduler === "mh" && hash === "flow" ? " -b mh-port" : ""}`;
}

/** Whether a removed real server stays until its connections end (kube-proxy's graceful termination): TCP only. */
function terminatesGracefully(key: ServerKey): boolean {
  return key.startsWith(PROTOCOL_OPTIONS.tcp);
}

/** One operation of ipvsadm. */
export type Operation =
  | { readonly does: "add" | "update"; readonly server: ServerKey; readonly definition: string }
  | { readonly does: "delete"; readonly server: ServerKey }
  | {
    readonly does: "add-real" | "update-real";
    readonly server: ServerKey;
    readonly real: string;
    readonly weight: number;
  }
  | { readonly does: "delete-real"; readonly server: ServerKey; readonly real: string };

const OPERATION_OPTIONS: Readonly<Record<Operation["does"], string>> = {
  "add": "-A",
  "update": "-E",
  "delete": "-D",
  "add-real": "-a",
  "update-real": "-e",
  "delete-real": "-d",
};

/** Prints an operation as a line of `ipvsadm --restore`, newline included. */
export function operationLine(operation: Operation): string {
  return `${OPERATION_OPTIONS[operation.does]} ${operation.server}${optionsOf(operation)}\n`;
}

/** The options of an operation behind its virtual server. Real servers are reached by masquerading. */
function optionsOf(operation: Operation): string {
  if ("definition" in operation) return ` ${operation.definition}`;
  if (!("real" in operation)) return "";
  return ` -r ${operation.real}${"weight" in operation ? ` -m -w ${operation.weight}` : ""}`;
}

/** The change of a virtual server by an operation. */
function changeOf(operation: Operation): PlaceChange {
  const text = optionsOf(operation).trimStart() || "the virtual server itself";
  const removes = operation.does === "delete" || operation.does === "delete-real";
  return {
    kind: "members",
    place: `virtual server ${operation.server}`,
    removed: removes ? [text] : [],
    added: removes ? [] : [text],
  };
}

/**
 * The operations that bring a virtual server from its state in the kernel to the desired one.
 * @param terminating its real servers of weight 0, which wait for their connections to end
 */
export function* serverOperations(
  server: ServerKey,
  held: VirtualServer | undefined,
  wanted: VirtualServer | undefined,
  terminating: ReadonlySet<string>,
): Generator<Operation> {
  if (!wanted) {
    if (held) yield { does: "delete", server };
    return;
  }
  if (!held) yield { does: "add", server, definition: wanted.definition };
  else if (held.definition !== wanted.definition) yield { does: "update", server, definition: wanted.definition };
  const there = weightsOf(held);
  for (const [real, weight] of weightsOf(wanted)) {
    const before = there.get(real);
    if (before === weight) continue;
    const isThere = before !== undefined || terminating.has(real);
    yield { does: isThere ? "update-real" : "add-real", server, real, weight };
  }
  const graceful = terminatesGracefully(server);
  const present = graceful ? there.keys() : [...there.keys(), ...terminating];
  for (const real of new Set(present).difference(new Set(wanted.realServers))) {
    if (graceful) yield { does: "update-real", server, real, weight: 0 };
    else yield { does: "delete-real", server, real };
  }
}

/** The weight of each real server of a virtual server. */
export function weightsOf(server: VirtualServer | undefined): ReadonlyMap<string, number> {
  return new Map(server?.realServers.map((real, i) => [real, server.weights?.[i] ?? 1]));
}

/** The real servers of a virtual server that terminate once it is as wanted. */
export function terminatingAfter(
  server: ServerKey,
  held: VirtualServer | undefined,
  wanted: VirtualServer | undefined,
  terminating: ReadonlySet<string>,
): ReadonlySet<string> {
  if (!held || !wanted || !terminatesGracefully(server)) return new Set();
  return new Set([...terminating, ...held.realServers]).difference(new Set(wanted.realServers));
}

/** A virtual server in the kernel. */
export interface ListedServer extends VirtualServer {
  readonly realServers: string[];
  readonly weights: number[];
  /** Its real servers of weight 0, which wait for their connections to end; not among the others. */
  readonly terminating: Set<string>;
}

/** `address:port` with the address in canonical form; ipvsadm prints some IPv6 addresses differently. */
function canonicalJoined(at: string): string {
  if (!at.startsWith("[")) return at;
  const { address, port } = splitHostPort(at);
  return joinHostPort(canonicalAddress(address) ?? address, port);
}

/** The kernel's virtual servers of one family. */
export interface VirtualServers {
  /**
   * Applies all operations in one call. ipvsadm continues after an operation that the kernel refuses: its message does
   * not name the line, and its exit status does not show the failure.
   * @returns the failure, if the kernel refused anything
   */
  apply(operations: readonly Operation[]): Promise<ToolFailure | undefined>;
  /**
   * Applies operations that delete or keep from new connections, in one call. What another program has deleted is no failure.
   * Throws if the kernel refuses one for another reason.
   */
  withdraw(operations: readonly Operation[]): Promise<void>;
  /** Lists all virtual servers with their real servers. Throws if the kernel has no IPVS. */
  list(): Promise<ReadonlyMap<ServerKey, ListedServer>>;
  /** Counts the connections of real servers, inactive ones included. Throws as `list` does. */
  connections(of: ReadonlySet<ServerKey>): Promise<ReadonlyMap<ServerKey, ReadonlyMap<string, number>>>;
  /** Lists the counters of each real server of the family. Throws as `list` does. */
  counters(onReal: (counters: RealServerCounters) => void): Promise<void>;
}

/** The counters of a real server for one virtual server; packets and bytes in both directions. */
export interface RealServerCounters {
  readonly protocol: Protocol;
  /** The address and port of the virtual server. */
  readonly address: string;
  readonly port: number;
  /** The real server, as `address:port`. */
  readonly real: string;
  readonly connections: number;
  readonly packets: number;
  readonly bytes: number;
}

/** Up to this many virtual servers are listed one by one for their connections; for more, all are listed at once. */
const ONE_BY_ONE = 8;

/** ipvsadm takes half a second for 10,000 virtual servers with three real servers each on an idle machine. */
const TIMEOUT_MS = 180_000;

/** The options of protocols, by their names in the tables of ipvsadm. */
const LISTED_PROTOCOLS: Readonly<Record<string, string>> = { TCP: "-t", UDP: "-u", SCTP: "--sctp-service" };

/** The virtual servers of this host. */
export function createVirtualServers(family: Family, runner: Runner): VirtualServers {
  const apply = (operations: readonly Operation[]) => applyOperations(runner, operations);
  return {
    apply,
    async withdraw(operations) {
      const failure = operations.length === 0 ? undefined : await apply(operations);
      if (failure !== undefined && failure.kind !== "absent") throw new Error(failure.text);
    },
    list: () => listServers(family, runner),
    async connections(of) {
      const found = new Map<ServerKey, Map<string, number>>();
      const onReal: OnReal = ({ key }, real, [, , active = NaN, inactive = NaN]) => {
        if (!of.has(key) || Number.isNaN(active + inactive)) return;
        if (!found.has(key)) found.set(key, new Map());
        found.get(key)!.set(real, active + inactive);
      };
      if (of.size > ONE_BY_ONE) await readTable(family, runner, [], onReal);
      else for (const key of of) await readTable(family, runner, key.split(" "), onReal);
      return found;
    },
    async counters(onReal) {
      await readTable(family, runner, ["--stats", "--exact"], ({ protocol, address, port }, real, columns) => {
        const [connections = 0, inPackets = 0, outPackets = 0, inBytes = 0, outBytes = 0] = columns;
        const sums = { connections, packets: inPackets + outPackets, bytes: inBytes + outBytes };
        onReal({ protocol, address, port, real, ...sums });
      });
    },
  };
}

async function applyOperations(runner: Runner, operations: readonly Operation[]): Promise<ToolFailure | undefined> {
  const result = await runner.run({
    tool: "ipvsadm",
    args: ["--restore"],
    stdin: printedInput(() => operations.values().map(operationLine)),
    changes: () => operations.values().map(changeOf),
    timeoutMs: TIMEOUT_MS,
  });
  const lines = result.stderr.split("\n").filter((line) => line.trim() !== "");
  const text = failureText("ipvsadm", result), failure = failureOf("ipvsadm", result);
  if (failure !== undefined && failure.kind !== "absent" || lines.length === 0) return failure;
  // Each refused operation has a line: one that is refused for another reason counts more than one whose object is gone.
  const kinds = lines.map((line) => classifyFailure("ipvsadm", line));
  return { kind: kinds.find((kind) => kind !== "absent") ?? "absent", text };
}

/** Lists what ipvsadm prints; nothing if the kernel has no object that the arguments name. */
async function listLines(runner: Runner, args: readonly string[], onLine: (line: string) => void): Promise<void> {
  const result = await runner.run({ tool: "ipvsadm", args, onLine, timeoutMs: TIMEOUT_MS });
  const failure = failureOf("ipvsadm", result);
  if (failure && failure.kind !== "absent") throw new Error(failure.text);
}

/** A virtual server in a listing: its key and the parts of it. */
interface ServerName extends NonNullable<ReturnType<typeof parseServerKey>> {
  readonly key: ServerKey;
}

/** The virtual server of a family that ipvsadm prints; undefined for others. */
function serverAt(family: Family, option: string | undefined, at: string): ServerName | undefined {
  if (option === undefined) return undefined;
  const key = `${option} ${canonicalJoined(at)}`, server = parseServerKey(key);
  return server && familyOf(server.address) === family ? { key, ...server } : undefined;
}

async function listServers(family: Family, runner: Runner): Promise<ReadonlyMap<ServerKey, ListedServer>> {
  const servers = new Map<ServerKey, ListedServer>();
  await listLines(runner, ["--save", "-n"], (line) => {
    const [does, option, at = "", ...rest] = line.trim().split(" ");
    const key = serverAt(family, option, at)?.key;
    if (key === undefined) return;
    if (does === "-A") {
      servers.set(key, { definition: rest.join(" "), realServers: [], weights: [], terminating: new Set() });
    } else if (does === "-a" && rest[1]) {
      const real = canonicalJoined(rest[1]), weight = Number(rest[rest.indexOf("-w") + 1]);
      const server = servers.get(key);
      if (weight === 0) server?.terminating.add(real);
      else {
        server?.realServers.push(real);
        server?.weights.push(weight);
      }
    }
  });
  return servers;
}

type OnReal = (server: ServerName, real: string, columns: readonly number[]) => void;

/** Reads a table of `ipvsadm -Ln`: each real server with the columns behind its name. */
async function readTable(family: Family, runner: Runner, args: readonly string[], onReal: OnReal): Promise<void> {
  let server: ServerName | undefined;
  await listLines(runner, ["-Ln", ...args], (line) => {
    const [name = "", at = "", ...columns] = line.trim().split(/\s+/);
    if (name !== "->") server = serverAt(family, LISTED_PROTOCOLS[name], at);
    else if (server !== undefined) onReal(server, canonicalJoined(at), columns.map(Number));
  });
}

/** Reads the connection timeouts of the whole host. Throws if that fails. */
export async function readTimeouts(runner: Runner): Promise<IpvsSettings["timeoutSeconds"]> {
  const call = "ipvsadm -L --timeout";
  const { stdout } = await runOrThrow(runner, { tool: "ipvsadm", args: ["-L", "--timeout"] }, call);
  const [tcp, tcpFin, udp] = /: (\d+) (\d+) (\d+)\s*$/.exec(stdout)?.slice(1).map(Number) ?? [];
  if (tcp === undefined || tcpFin === undefined || udp === undefined) {
    throw new Error(`ipvsadm printed no timeouts: ${JSON.stringify(stdout.slice(0, 100))}`);
  }
  return { tcp, tcpFin, udp };
}

/** Sets the connection timeouts of the whole host. Throws if that fails. */
export async function setTimeouts(
  runner: Runner,
  { tcp, tcpFin, udp }: IpvsSettings["timeoutSeconds"],
): Promise<void> {
  const args = ["--set", ...[tcp, tcpFin, udp].map(String)];
  await runOrThrow(runner, { tool: "ipvsadm", args }, "ipvsadm --set");
}
