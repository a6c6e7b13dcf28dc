/**
 * Virtual and real servers in the field's terms, and how ipvsadm writes them: what `--save -n` prints is what
 * `--restore` takes, so that what the kernel holds is compared as text.
 */
import type { Family, Protocol } from "../../core/model/mod.ts";
import type { PlaceChange } from "../tools/mod.ts";
import { canonicalAddress, familyOf, joinHostPort, splitHostPort } from "../../platform/mod.ts";

/** What names a virtual server, as ipvsadm writes it: `-t 10.96.0.10:80`. */
export type ServerKey = string;

/** A virtual server: what the kernel does with packets to an address and port. */
export interface VirtualServer {
  /** Its scheduler, how long it keeps clients, and its flags, as ipvsadm writes them: `-s rr -p 10800`. */
  readonly definition: string;
  /** Its real servers of weight 1, as `address:port`, each once. */
  readonly realServers: readonly string[];
}

const PROTOCOL_OPTIONS: Readonly<Record<Protocol, string>> = { tcp: "-t", udp: "-u", sctp: "--sctp-service" };

/** Names a virtual server. */
export function serverKey(protocol: Protocol, address: string, port: number): ServerKey {
  return `${PROTOCOL_OPTIONS[protocol]} ${joinHostPort(address, port)}`;
}

/** The parts of what `serverKey` made; undefined for a virtual server of a firewall mark. */
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
 * The definition of a virtual server. `mh` hashes the client's port too, as kube-proxy has it.
 * @param affinitySeconds how long a client stays with its real server; 0 for one connection
 */
export function serverDefinition(scheduler: string, affinitySeconds: number): string {
  const persistence = affinitySeconds === 0 ? "" : ` -p ${affinitySeconds}`;
  return `-s ${scheduler}${persistence}${scheduler === "mh" ? " -b mh-port" : ""}`;
}

/**
 * Whether a real server stays, with weight 0, until its connections have ended. UDP has none that end, and flows of it
 * are better off elsewhere at once (kube-proxy's graceful termination).
 */
export function terminatesGracefully(key: ServerKey): boolean {
  return key.startsWith(PROTOCOL_OPTIONS.tcp);
}

/** One thing that ipvsadm does. */
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

/** A virtual server as the kernel has it. */
export interface ListedServer {
  readonly definition: string;
  /** The weights of its real servers, by `address:port`. */
  readonly weights: Map<string, number>;
}

/** Reads what `ipvsadm --save -n` prints, line by line: the virtual servers of a family. */
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
      const key = `${option} ${canonical(at)}`;
      const named = parseServerKey(key);
      if (!named || familyOf(named.address) !== family) return;
      if (does === "-A") servers.set(key, { definition: rest.join(" "), weights: new Map() });
      else if (does === "-a" && rest[1]) {
        const weight = rest[rest.indexOf("-w") + 1];
        servers.get(key)?.weights.set(canonical(rest[1]), Number(weight));
      }
    },
  };
}

/** `address:port` with the address in its canonical form, which ipvsadm prints but for some of IPv6. */
function canonical(at: string): string {
  if (!at.startsWith("[")) return at;
  const { address, port } = splitHostPort(at);
  return joinHostPort(canonicalAddress(address) ?? address, port);
}
