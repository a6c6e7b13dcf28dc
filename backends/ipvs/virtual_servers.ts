/**
 * Virtual and real servers, the operations on them, and their text: `ipvsadm --save -n` prints the same text that
 * `ipvsadm --restore` reads, so the kernel's state is compared as text.
 */
import type { BalanceHash, Family, Protocol } from "../../core/model/mod.ts";
import type { PlaceChange } from "../tools/mod.ts";
import { canonicalAddress, familyOf, joinHostPort, splitHostPort } from "../../platform/mod.ts";

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
export function terminatesGracefully(key: ServerKey): boolean {
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
export function* changedServers(operations: readonly Operation[]): Generator<PlaceChange> {
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
export function createListingReader(family: Family): {
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
export function canonicalJoined(at: string): string {
  if (!at.startsWith("[")) return at;
  const { address, port } = splitHostPort(at);
  return joinHostPort(canonicalAddress(address) ?? address, port);
}
