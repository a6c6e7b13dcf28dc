import type { Family, FamilySettings, LocalTraffic, Protocol } from "../../core/model/mod.ts";
import { splitHostPort } from "../../platform/mod.ts";

/** The name of Sluice's table in each family. */
export const TABLE = "sluice";

/** The name of the table that counts open connections, while service ports ask for that (see open_connections.ts). */
export const CONNECTIONS_TABLE = "sluice-connections";
/** The table that resets connections to dead endpoints, in other modes, too (see resets.ts). */
export const RESETS_TABLE = "sluice-resets";

/** The name of the tables of kube-proxy's nftables mode. */
export const KUBE_PROXY_TABLE = "kube-proxy";

/** The keywords of nft for a family. */
export interface Dialect {
  /** The name of the family, of its header, and of its addresses in statements. */
  readonly ip: "ip" | "ip6";
  readonly addressType: "ipv4_addr" | "ipv6_addr";
  /** The address that stands for any address of this node in the keys of node ports. */
  readonly anyAddress: string;
  /** The prefix that does not serve node ports: the kernel does not route from there to pods. */
  readonly loopback: string;
}

/** The keywords of nft for each family. */
export const DIALECTS: Readonly<Record<Family, Dialect>> = {
  IPv4: { ip: "ip", addressType: "ipv4_addr", anyAddress: "0.0.0.0", loopback: "127.0.0.0/8" },
  IPv6: { ip: "ip6", addressType: "ipv6_addr", anyAddress: "::", loopback: "::1" },
};

/** All protocols that services have. */
export const PROTOCOLS: readonly Protocol[] = ["tcp", "udp", "sctp"];

/**
 * The sets and maps of the table. Most elements belong to a frontend and thus to one service port; several service
 * ports may share an element of `cluster-ips` or `hairpins`.
 */
export type SetName =
  /** Frontend → the chain that serves it. */
  | "services"
  /** Frontend of policy Local → the chain that serves this node's own traffic to it. */
  | "shortcuts"
  /** Frontends that reject, and frontends that drop. */
  | "refused"
  | "dropped"
  /**
   * Frontend that is open to some sources only → the chain that admits them; node port that refuses packets to some addresses
   * only → the chain that does.
   */
  | "restricted"
  /** Frontend and range, for each range that admits sources to the frontend (see sources.ts). */
  | "sources"
  /** The ranges of a list. */
  | SourceListName
  /** Frontend and number → endpoint. */
  | `${Protocol}-endpoints`
  /** The same for this node's own traffic to frontends of policy Local. */
  | `${Protocol}-shortcut-endpoints`
  /** The endpoints of a service port with many external frontends. */
  | OutsideMapName
  | typeof CLIENTS
  | SharedSetName
  | TrafficSetName;

/** The name of the set of the clients of services with session affinity (see affinity.ts). */
export const CLIENTS = "clients";

/** The name of the set of a list of source ranges. */
export type SourceListName = `sources-${string}`;

/** The name of the map with the slots that the external frontends of a service port share. */
export type OutsideMapName = `outside-${string}`;

/** The sets with counters, whose elements rules add (see counters.ts). */
export type TrafficSetName =
  /** Hash of frontend and endpoint, for each connection. */
  | "count-connections"
  /** The same, for each packet of both directions. */
  | "count-packets"
  /** Frontend and endpoint of each connection to another address than a cluster IP. */
  | "count-pairs"
  /** Frontend and endpoint, for repeated first packets of TCP connections. */
  | "count-unanswered"
  /** Frontends, for packets that are rejected or dropped, by reason. */
  | "count-rejected"
  | "count-dropped"
  | "count-outside"
  /** Endpoints and directions, for connection attempts and their answers (see counters.ts). */
  | "count-attempts";

/** The sets with elements that several service ports may share. */
export type SharedSetName =
  | "cluster-ips"
  /** An endpoint's address, twice: traffic from an endpoint to itself. */
  | "hairpins";

/** The declaration of each set or map: its kind, and the lines between its braces, as nft prints and accepts them. */
export type SetDeclarations = ReadonlyMap<SetName, string>;

/** A chain that exists even without services. */
export interface BaseChain {
  readonly name: string;
  /** The hook at which the kernel calls it, as nft prints it; undefined for a chain that is only jumped to. */
  readonly hook: string | undefined;
  readonly rules: readonly string[];
}

/**
 * The maximum number of elements of a set that was declared without a size, once a rule with `update` refers to it; nft then
 * lists it as the set's size (nft_dynset_init in the kernel). Never declare this size: the kernel would allocate a hash table
 * for as many elements at once, 2 MB, while the table of a set without a declared size grows with its elements.
 */
export const DEFAULT_SET_SIZE = 65_535;

/** An expression with the type of a number of 32 bits. */
export const NUMBER = "numgen random mod 65536";

/**
 * The maximum number of clients of all services. As with `MOST_PAIRS` in counters.ts, its lower 16 bits are 0, so that the kernel
 * allocates no table at once.
 */
const MOST_CLIENTS = 2 ** 24;

/**
 * The sets and maps of a family. No other has a size: the kernel's hash table then grows with the elements.
 *
 * Each protocol has a map of endpoints: nft 1.0.6 accepts the port of a DNAT only from a map whose type names the protocol.
 */
export function declareSets({ ip, addressType }: Dialect): SetDeclarations {
  const frontend = `${ip} daddr . meta l4proto . th dport`;
  const set = (type: string) => `set\ntypeof ${type}`;
  const map = (type: string) => `map\ntypeof ${type}`;
  const endpoints = PROTOCOLS.flatMap((protocol) =>
    ([`${protocol}-endpoints`, `${protocol}-shortcut-endpoints`] as const).map((name) =>
      [
        name,
        map(`${ip} daddr . ${protocol} dport . ${NUMBER} : ${ip} daddr . ${protocol} dport`),
      ] as const
    )
  );
  return new Map<SetName, string>([
    ["services", map(`${frontend} : verdict`)],
    ["shortcuts", map(`${frontend} : verdict`)],
    ["refused", set(frontend)],
    ["dropped", set(frontend)],
    ["restricted", map(`${frontend} : verdict`)],
    // nft cannot store the type of so many fields as expressions.
    ["sources", `set\ntype ${addressType} . inet_proto . inet_service . ${addressType} . mark`],
    // Rules give each element its timeout, which a Service may change.
    [CLIENTS, `${set(`${NUMBER} . ${NUMBER}`)}\nsize ${MOST_CLIENTS}\nflags dynamic,timeout`],
    ["cluster-ips", set(`${ip} daddr`)],
    ["hairpins", set(`${ip} saddr . ${ip} daddr`)],
    ...endpoints,
  ]);
}

// Parts of rules, spelled as nft prints them, so that chains can be compared as text.

/** The key of a frontend in sets and maps; a node port has that of the unspecified address. */
export function frontendKey({ ip, anyAddress }: Dialect, nodePort: boolean): string {
  return `${ip} daddr ${nodePort ? `& ${anyAddress} ` : ""}. meta l4proto . th dport`;
}

/** A number of 32 bits as nft prints a mark. */
export function hexText(value: number): string {
  return `0x${(value >>> 0).toString(16).padStart(8, "0")}`;
}

/** Sets the mark for masquerading. */
export function setMark({ masqueradeMark }: FamilySettings): string {
  return `meta mark set meta mark | ${hexText(masqueradeMark)}`;
}

/** Clears the mark, so that a packet that passes again (a tunnel) is not masqueraded twice. */
export function clearMark({ masqueradeMark }: FamilySettings): string {
  return `meta mark set meta mark & ${hexText(~masqueradeMark)}`;
}

/** Matches packets without the mark. */
export function unmarked({ masqueradeMark }: FamilySettings): string {
  return `meta mark & ${hexText(masqueradeMark)} == 0x00000000`;
}

/** A prefix as nft prints it: a single address without its length. */
export function prefixText(prefix: string): string {
  return prefix.replace(prefix.includes(":") ? /\/128$/ : /\/32$/, "");
}

/**
 * A match for traffic of this node's pods (`local`) or for any other traffic (`!local`), with a trailing space; empty if it
 * matches everything, undefined if it matches nothing or local traffic cannot be detected.
 */
export function localMatch(traffic: LocalTraffic, local: boolean, { ip }: Dialect): string | undefined {
  const not = local ? "" : "!= ";
  switch (traffic.by) {
    case "none":
      return undefined;
    case "source-prefix":
      if (traffic.prefix.endsWith("/0")) return local ? "" : undefined;
      return `${ip} saddr ${not}${prefixText(traffic.prefix)} `;
    case "bridge":
      return `iifname ${not}"${traffic.interface}" `;
    case "interface-prefix":
      return `iifname ${not}"${traffic.prefix}*" `;
  }
}

/**
 * The rules for traffic of this node's pods and of the node itself (kube-proxy's shortcuts of policy Local). Traffic of the
 * node is masqueraded: its source may be an address to which the endpoint cannot reply through this node.
 */
export function fromThisNode(settings: FamilySettings, dialect: Dialect, then: string): string[] {
  const pods = localMatch(settings.localTraffic, true, dialect);
  return [
    ...(pods === undefined ? [] : [`${pods}${then}`]),
    `fib saddr type local ${setMark(settings)} ${then}`,
  ];
}

/** An endpoint as a key or value of a set: `10.0.0.1 . 80`. */
export function endpointElement(endpoint: string): string {
  const { address, port } = splitHostPort(endpoint);
  return `${address} . ${port}`;
}

/** The units of durations in nft, in seconds. */
const UNITS = [["d", 86_400], ["h", 3_600], ["m", 60], ["s", 1]] as const;

/** A duration in whole seconds as nft prints it: `1d2h3m4s`. */
export function durationText(seconds: number): string {
  let text = "", left = seconds;
  for (const [unit, size] of UNITS) {
    if (left >= size) text += `${Math.floor(left / size)}${unit}`;
    left %= size;
  }
  return text;
}
