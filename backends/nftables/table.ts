import type { Family, Protocol } from "../../core/model/mod.ts";

/** The name of Sluice's only table in each family. */
export const TABLE = "sluice";

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
  /** Frontends that are open to some sources only, and these sources. */
  | "firewalled"
  | "source-ranges"
  /** Frontend and number → endpoint. */
  | `${Protocol}-endpoints`
  /** The same for this node's own traffic to frontends of policy Local. */
  | `${Protocol}-shortcut-endpoints`
  | SharedSetName
  | TrafficSetName;

/** The sets with counters, whose elements rules add (see traffic.ts). */
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
  /** Endpoints and directions, for connection attempts and their answers (see failures.ts). */
  | "count-attempts"
  /** Endpoints whose connections are reset (see gone.ts). */
  | "gone-endpoints";

/** The sets with elements that several service ports may share. */
export type SharedSetName =
  | "cluster-ips"
  /** An endpoint's address, twice: traffic from an endpoint to itself. */
  | "hairpins";

/** The declaration of each set, as nft prints and accepts it. */
export type SetDeclarations = ReadonlyMap<SetName, SetDeclaration>;

/** A declaration of a set or map. */
export interface SetDeclaration {
  readonly kind: "set" | "map";
  /** The lines between its braces. */
  readonly lines: readonly string[];
}

/** A declaration as text, for comparisons. */
export function declarationText({ kind, lines }: SetDeclaration): string {
  return [kind, ...lines].join("\n");
}

/**
 * The sets and maps of a family. None has a size: the kernel then uses a hash table that grows without a limit, while a size
 * of 500,000 would cost 8 MB per set from the start.
 *
 * Each protocol has a map of endpoints: nft 1.0.6 accepts the port of a DNAT only from a map whose type names the protocol.
 */
export function declareSets({ ip }: Dialect): SetDeclarations {
  const frontend = `${ip} daddr . meta l4proto . th dport`;
  const set = (type: string, ...more: string[]): SetDeclaration => ({
    kind: "set",
    lines: [`typeof ${type}`, ...more],
  });
  const map = (type: string): SetDeclaration => ({ kind: "map", lines: [`typeof ${type}`] });
  const endpoints = PROTOCOLS.flatMap((protocol) =>
    ([`${protocol}-endpoints`, `${protocol}-shortcut-endpoints`] as const).map((name) =>
      [
        name,
        map(`${ip} daddr . ${protocol} dport . numgen random mod 65536 : ${ip} daddr . ${protocol} dport`),
      ] as const
    )
  );
  return new Map<SetName, SetDeclaration>([
    ["services", map(`${frontend} : verdict`)],
    ["shortcuts", map(`${frontend} : verdict`)],
    ["refused", set(frontend)],
    ["dropped", set(frontend)],
    ["firewalled", set(frontend)],
    ["source-ranges", set(`${frontend} . ${ip} saddr`, "flags interval")],
    ["cluster-ips", set(`${ip} daddr`)],
    ["hairpins", set(`${ip} saddr . ${ip} daddr`)],
    ...endpoints,
  ]);
}
