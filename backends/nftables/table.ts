import type { Family, Protocol } from "../../core/model/mod.ts";

/** The name of the one table of each family that everything of ours is in. */
export const TABLE = "sluice";

/** The name of the tables of kube-proxy's own nftables mode. */
export const KUBE_PROXY_TABLE = "kube-proxy";

/** How nft speaks of a family. */
export interface Dialect {
  /** The name of the family, of its header, and of its addresses in statements. */
  readonly ip: "ip" | "ip6";
  readonly addressType: "ipv4_addr" | "ipv6_addr";
  /** The address that stands for "whichever of this node's" in the keys of node ports. */
  readonly anyAddress: string;
  /** What must not serve node ports: the kernel does not route from there to pods. */
  readonly loopback: string;
}

/** How nft speaks of each family. */
export const DIALECTS: Readonly<Record<Family, Dialect>> = {
  IPv4: { ip: "ip", addressType: "ipv4_addr", anyAddress: "0.0.0.0", loopback: "127.0.0.0/8" },
  IPv6: { ip: "ip6", addressType: "ipv6_addr", anyAddress: "::", loopback: "::1" },
};

/** All protocols that services have. */
export const PROTOCOLS: readonly Protocol[] = ["tcp", "udp", "sctp"];

/**
 * The sets and maps of the table. An element of most of them belongs to one service port, since a frontend does; those
 * of `cluster-ips` and `hairpins` may be wanted by many.
 */
export type SetName =
  /** Frontend → the chain that serves it. */
  | "services"
  /** Frontend of policy Local → the chain that serves this node's own traffic to it. */
  | "shortcuts"
  /** Frontends that refuse, and frontends that do not answer. */
  | "refused"
  | "dropped"
  /** Frontends that are open to some sources only, and those sources. */
  | "firewalled"
  | "source-ranges"
  /** Frontend and number → endpoint. */
  | `${Protocol}-endpoints`
  /** The same for this node's own traffic to frontends of policy Local. */
  | `${Protocol}-shortcut-endpoints`
  | SharedSetName;

/** The sets whose elements may be wanted by many service ports. */
export type SharedSetName =
  | "cluster-ips"
  /** An endpoint's address and itself: traffic that comes back to where it came from. */
  | "hairpins";

/** The declaration of each set, as nft prints it, which is also how nft takes it. */
export type SetDeclarations = ReadonlyMap<SetName, SetDeclaration>;

/** What a set is. */
export interface SetDeclaration {
  readonly kind: "set" | "map";
  /** The lines between its braces. */
  readonly lines: readonly string[];
}

/** A declaration as one text, to compare it by. */
export function declarationText({ kind, lines }: SetDeclaration): string {
  return [kind, ...lines].join("\n");
}

/**
 * The sets and maps of a family. None has a size: the kernel then gives it a hash table that grows with its elements,
 * without a limit, where a size of 500,000 would cost each of them 8 MB from the start.
 *
 * Endpoints are in a map per protocol: nft 1.0.6 takes the port of a rewritten destination only from a map whose type
 * names the protocol of that port.
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
