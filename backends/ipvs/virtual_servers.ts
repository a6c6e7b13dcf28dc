/**
 * Virtual and real servers, the operations on them, and their text: `ipvsadm --save -n` prints the same text that
 * `ipvsadm --restore` reads, so the kernel's state is compared as text.
 */
import type { BalanceHash, Family, IpvsSettings, Protocol } from "../../core/model/mod.ts";
import { canonicalAddress, familyOf, joinHostPort, splitHostPort } from "../../platform/mod.ts";
import {
  classifyFailure,
  failureOf,
  type FailureTable,
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

/** A virtual server as the kernel holds it, or should hold it. */
export interface HeldServer extends VirtualServer {
  /** Real servers whose weight is neither 0 nor the desired one, set by another program. */
  readonly misweighted?: ReadonlySet<string>;
}

const PROTOCOL_OPTIONS: Readonly<Record<Protocol, string>> = { tcp: "-t", udp: "-u", sctp: "--sctp-service" };

/** The key of a virtual server. */
export function serverKey(protocol: Protocol, address: string, port: number): ServerKey {
  return `${PROTOCOL_OPTIONS[protocol]} ${joinHostPort(address, port)}`;
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

/**
 * Whether a removed real server stays, with weight 0, until its connections have ended (kube-proxy's graceful
 * termination). UDP has no connections that end; its flows move to another real server at once.
 */
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
  switch (operation.does) {
    case "add":
    case "update":
      return ` ${operation.definition}`;
    case "delete":
      return "";
    case "add-real":
    case "update-real":
      return ` -r ${operation.real} -m -w ${operation.weight}`;
    case "delete-real":
      return ` -r ${operation.real}`;
  }
}

/** The virtual servers that operations change. */
function* changedServers(operations: readonly Operation[]): Generator<PlaceChange> {
  for (const operation of operations) {
    const text = optionsOf(operation).trimStart() || "the virtual server itself";
    const removes = operation.does === "delete" || operation.does === "delete-real";
    yield {
      kind: "members",
      place: `virtual server ${operation.server}`,
      removed: removes ? [text] : [],
      added: removes ? [] : [text],
    };
  }
}

/**
 * The operations that bring a virtual server from its state in the kernel to the desired one.
 * @param terminating its real servers of weight 0, which wait for their connections to end
 */
export function* serverOperations(
  server: ServerKey,
  held: HeldServer | undefined,
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
    const isThere = before !== undefined || terminating.has(real) || held?.misweighted?.has(real);
    yield { does: isThere ? "update-real" : "add-real", server, real, weight };
  }
  const stay = new Set(wanted.realServers);
  const graceful = terminatesGracefully(server);
  for (const real of [...held?.realServers ?? [], ...held?.misweighted ?? []]) {
    if (stay.has(real)) continue;
    if (graceful) yield { does: "update-real", server, real, weight: 0 };
    else yield { does: "delete-real", server, real };
  }
  if (graceful) return;
  for (const real of terminating) if (!stay.has(real)) yield { does: "delete-real", server, real };
}

/** The weight of each real server of a virtual server. */
export function weightsOf(server: VirtualServer | undefined): ReadonlyMap<string, number> {
  return new Map(server?.realServers.map((real, i) => [real, server.weights?.[i] ?? 1]));
}

/** The real servers that terminate after these operations. */
export function terminatingAfter(operations: Iterable<Operation>, before: ReadonlySet<string>): ReadonlySet<string> {
  const after = new Set(before);
  for (const operation of operations) {
    if (operation.does === "delete" || operation.does === "add") after.clear();
    else if (operation.does === "delete-real") after.delete(operation.real);
    else if (operation.does === "update-real" && operation.weight === 0) after.add(operation.real);
    else if (operation.does === "update-real" || operation.does === "add-real") after.delete(operation.real);
  }
  return after;
}

/** A virtual server as ipvsadm lists it. */
export interface ListedServer {
  readonly definition: string;
  /** The weights of its real servers, by `address:port`. */
  readonly weights: Map<string, number>;
}

/** Reads the virtual servers of a family, line by line as `ipvsadm --save -n` prints them. */
function createListingReader(family: Family): {
  readonly onLine: (line: string) => void;
  readonly servers: ReadonlyMap<ServerKey, ListedServer>;
} {
  const servers = new Map<ServerKey, ListedServer>();
  return {
    servers,
    onLine(line) {
      const [does, option, at, ...rest] = line.trim().split(" ");
      if (!option || !at) return;
      const key = `${option} ${canonicalJoined(at)}`;
      const named = parseServerKey(key);
      if (!named || familyOf(named.address) !== family) return;
      if (does === "-A") servers.set(key, { definition: rest.join(" "), weights: new Map() });
      else if (does === "-a" && rest[1]) {
        const weight = rest[rest.indexOf("-w") + 1];
        servers.get(key)?.weights.set(canonicalJoined(rest[1]), Number(weight));
      }
    },
  };
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
  /** Lists all virtual servers with their real servers. Throws if the kernel has no IPVS. */
  list(): Promise<ReadonlyMap<ServerKey, ListedServer>>;
  /**
   * Counts the connections of each real server of these virtual servers, including inactive ones. Throws as `list`
   * does.
   */
  connections(of: ReadonlySet<ServerKey>): Promise<ReadonlyMap<ServerKey, ReadonlyMap<string, number>>>;
  /** Lists the counters of each real server of the family. Throws as `list` does. */
  counters(onReal: (counters: RealServerCounters) => void): Promise<void>;
  /** Sets the connection timeouts of the whole host. Throws if that fails. */
  setTimeouts(timeouts: IpvsSettings["timeoutSeconds"]): Promise<void>;
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

/** Messages of ipvsadm 1.31. */
const FAILURES: FailureTable = [
  ["forbidden", /must be root/],
  ["absent", /No such service|Service not defined/],
  ["done already", /already exists/],
];

/** The virtual servers of this host. */
export function createVirtualServers(family: Family, runner: Runner): VirtualServers {
  async function listed(args: readonly string[], onLine: (line: string) => void): Promise<void> {
    const result = await runner.run({ tool: "ipvsadm", args, onLine, timeoutMs: TIMEOUT_MS });
    const failure = failureOf("ipvsadm", result, FAILURES);
    if (failure && failure.kind !== "absent") throw new Error(failure.text);
  }
  return {
    async apply(operations) {
      const result = await runner.run({
        tool: "ipvsadm",
        args: ["--restore"],
        stdin: printedInput(() => lines(operations)),
        changes: () => changedServers(operations),
        timeoutMs: TIMEOUT_MS,
      });
      const { exitCode, stderr } = result;
      if (exitCode !== 0 || stderr.trim() === "") return failureOf("ipvsadm", result, FAILURES);
      return { kind: classifyFailure(stderr, FAILURES), text: failureText("ipvsadm", result) };
    },
    async list() {
      const reader = createListingReader(family);
      await listed(["--save", "-n"], reader.onLine);
      return reader.servers;
    },
    async connections(of) {
      const found = new Map<ServerKey, Map<string, number>>();
      let reals: Map<string, number> | undefined;
      const onLine = (line: string) => {
        const words = line.trim().split(/\s+/);
        if (words[0] === "->") {
          const active = Number(words[4]), inactive = Number(words[5]);
          if (reals && words[1] && !Number.isNaN(active + inactive)) reals.set(words[1], active + inactive);
          return;
        }
        const key = LISTED_PROTOCOLS[words[0] ?? ""] + ` ${words[1]}`;
        reals = of.has(key) ? new Map() : undefined;
        if (reals) found.set(key, reals);
      };
      if (of.size > ONE_BY_ONE) await listed(["-Ln"], onLine);
      else for (const key of of) await listed(["-Ln", ...key.split(" ")], onLine);
      return found;
    },
    async counters(onReal) {
      let server: ReturnType<typeof parseServerKey>;
      await listed(["-Ln", "--stats", "--exact"], (line) => {
        const [name = "", at = "", ...numbers] = line.trim().split(/\s+/);
        if (name !== "->") {
          const option = LISTED_PROTOCOLS[name];
          const named = option === undefined ? undefined : parseServerKey(`${option} ${canonicalJoined(at)}`);
          server = named && familyOf(named.address) === family ? named : undefined;
          return;
        }
        if (server === undefined) return;
        const [connections = 0, inPackets = 0, outPackets = 0, inBytes = 0, outBytes = 0] = numbers.map(Number);
        const sums = { connections, packets: inPackets + outPackets, bytes: inBytes + outBytes };
        onReal({ ...server, real: canonicalJoined(at), ...sums });
      });
    },
    async setTimeouts({ tcp, tcpFin, udp }) {
      const args = ["--set", String(tcp), String(tcpFin), String(udp)];
      await runOrThrow(runner, { tool: "ipvsadm", args }, "ipvsadm --set");
    },
  };
}

const LISTED_PROTOCOLS: Readonly<Record<string, string>> = { TCP: "-t", UDP: "-u", SCTP: "--sctp-service" };

function* lines(operations: readonly Operation[]): Generator<string> {
  for (const operation of operations) yield operationLine(operation);
}

/** The address of a virtual server; undefined for one of a firewall mark. */
export function addressOf(key: ServerKey): string | undefined {
  return parseServerKey(key)?.address;
}
