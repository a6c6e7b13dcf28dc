import { DIALECTS } from "../../backends/nftables/table.ts";
import { declaredSets } from "../../backends/nftables/sets.ts";
import type { Family } from "../../core/model/mod.ts";

/** Input for both the real and the fake nft, with an empty kernel. */
export interface NftCase {
  readonly name: string;
  /** The transactions, with one statement per line. The table is listed after each. */
  readonly transactions: readonly string[];
}

const SETS = `add table ip sluice
add set ip sluice plain { typeof ip daddr; }
add set ip sluice frontends { typeof ip daddr . meta l4proto . th dport; }
add map ip sluice services { typeof ip daddr . meta l4proto . th dport : verdict; }
add map ip sluice tcp-endpoints { typeof ip daddr . tcp dport . numgen random mod 65536 : ip daddr . tcp dport; }
`;

const CHAINS = `${SETS}add chain ip sluice a
add chain ip sluice b
add chain ip sluice hooked { type filter hook forward priority filter; policy accept; }
add rule ip sluice a goto b
add rule ip sluice hooked ct state new ip daddr . meta l4proto . th dport vmap @services
add element ip sluice services { 10.0.0.1 . tcp . 80 : goto a }
`;

function declarations(family: Family): string {
  const table = `${DIALECTS[family].ip} sluice`;
  const sets = [...declaredSets({ countTraffic: true, countsAttempts: true }, DIALECTS[family])].map(([name, text]) => {
    const [kind, ...lines] = text.split("\n");
    return `add ${kind} ${table} ${name} { ${lines.join("; ")}; }\n`;
  });
  return `add table ${table}\n${sets.join("")}`;
}

/** Inputs whose handling by nft is specific. */
export const CASES: readonly NftCase[] = [
  { name: "the listing of the IPv4 sets", transactions: [declarations("IPv4")] },
  { name: "the listing of the IPv6 sets", transactions: [declarations("IPv6")] },
  {
    name: "the size of a set to which a rule adds elements",
    transactions: [
      "add table ip sluice\nadd set ip sluice open { type ipv4_addr; flags dynamic,timeout; }\n" +
      "add set ip sluice sized { type ipv4_addr; size 100; flags dynamic,timeout; }\n" +
      "add chain ip sluice a\n",
      "add rule ip sluice a ip saddr @open accept\n",
      "add rule ip sluice a update @open { ip saddr timeout 3h }\nadd rule ip sluice a update @sized { ip saddr timeout 3h }\n",
      "flush chain ip sluice a\n",
    ],
  },
  {
    name: "tables that are added and deleted",
    transactions: [
      "add table ip sluice\n",
      "add table ip sluice\nadd table ip6 sluice\n",
      "delete table ip sluice\n",
      "delete table ip sluice\n",
      "add table ip sluice\ndelete table ip sluice\n",
      "add set ip sluice a { typeof ip daddr; }\n",
    ],
  },
  {
    name: "the listing of elements of every kind",
    transactions: [
      CHAINS,
      "add element ip sluice plain { 10.0.0.1 }\n",
      "add element ip sluice plain { 10.0.0.1, 10.0.0.2 }\n",
      "add element ip sluice plain { 10.0.0.3, 10.0.0.4, 10.0.0.5 }\n",
      "add element ip sluice frontends { 10.0.0.1 . tcp . 80, 10.0.0.1 . udp . 53, 10.0.0.1 . sctp . 65535 }\n",
      "add element ip sluice services { 0.0.0.0 . udp . 30000 : goto b }\n",
      "add element ip sluice tcp-endpoints { 10.0.0.1 . 80 . 0 : 10.1.0.1 . 8080, 10.0.0.1 . 80 . 1 : 10.1.0.2 . 8080 }\n",
      "delete element ip sluice frontends { 10.0.0.1 . tcp . 80, 10.0.0.1 . sctp . 65535 }\n",
      "delete element ip sluice plain { 10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4 }\n",
      "delete element ip sluice plain { 10.0.0.5 }\n",
    ],
  },
  {
    name: "elements and chains that already exist or do not exist",
    transactions: [
      CHAINS,
      "add element ip sluice services { 10.0.0.1 . tcp . 80 : goto a }\n",
      "add element ip sluice services { 10.0.0.1 . tcp . 80 : goto b }\n",
      "delete element ip sluice services { 10.0.0.1 . tcp . 81 }\n",
      "delete element ip sluice services { 10.0.0.1 . tcp . 80 }\n",
      "delete element ip sluice services { 10.0.0.1 . tcp . 80 }\nadd element ip sluice services { 10.0.0.1 . tcp . 80 : goto b }\n",
      "delete element ip sluice services { 10.0.0.1 . tcp . 80 }\nadd element ip sluice services { 10.0.0.1 . tcp . 80 : goto b }\n" +
      "delete element ip sluice services { 10.0.0.1 . tcp . 80 }\n",
      "add chain ip sluice a\n",
      "add set ip sluice plain { typeof ip daddr; }\n",
      "add element ip sluice tcp-endpoints { 10.0.0.1 . 80 . 0 : 10.1.0.1 . 80 }\n",
      "add element ip sluice tcp-endpoints { 10.0.0.1 . 80 . 0 : 10.1.0.2 . 80 }\n",
    ],
  },
  {
    name: "unknown names",
    transactions: [
      CHAINS,
      "add element ip sluice nosuchset { 10.0.0.1 }\n",
      "delete element ip sluice nosuchset { 10.0.0.1 }\n",
      "add element ip sluice services { 10.0.0.9 . tcp . 80 : goto nosuchchain }\n",
      "add rule ip sluice nosuchchain drop\n",
      "add rule ip sluice a goto nosuchchain\n",
      "add rule ip sluice a ip daddr @nosuchset drop\n",
      "flush chain ip sluice nosuchchain\n",
      "delete chain ip sluice nosuchchain\n",
      "delete set ip sluice nosuchset\n",
    ],
  },
  {
    name: "the deletion of objects that are in use",
    transactions: [
      CHAINS,
      "delete chain ip sluice b\n",
      "delete chain ip sluice a\n",
      "delete set ip sluice services\n",
      "flush chain ip sluice a\ndelete chain ip sluice b\n",
      "delete element ip sluice services { 10.0.0.1 . tcp . 80 }\ndelete chain ip sluice a\n",
      "flush chain ip sluice hooked\ndelete set ip sluice services\n",
      "delete set ip sluice plain\n",
    ],
  },
  {
    name: "the deletion of an unreferenced chain with rules",
    transactions: [
      CHAINS,
      "delete chain ip sluice hooked\n",
      "add chain ip sluice c\nadd rule ip sluice c drop\n",
      "delete chain ip sluice c\n",
    ],
  },
  {
    name: "a refused transaction, which changes nothing",
    transactions: [
      CHAINS,
      "add chain ip sluice c\nadd rule ip sluice c drop\nadd element ip sluice plain { 10.0.0.9 }\nflush chain ip sluice hooked\n" +
      "add rule ip sluice c goto nosuchchain\n",
      "add element ip sluice plain { 10.0.0.9 }\nflush chain ip sluice nosuchchain\n",
    ],
  },
  {
    name: "chains that are flushed and rewritten",
    transactions: [
      CHAINS,
      "flush chain ip sluice a\nadd rule ip sluice a ip saddr 10.0.0.0/8 drop\nadd rule ip sluice a goto b\n",
      "flush chain ip sluice hooked\ndelete chain ip sluice hooked\n" +
      "add chain ip sluice hooked { type filter hook input priority filter; policy accept; }\nadd rule ip sluice hooked drop\n",
    ],
  },
  { name: "nonsense", transactions: [SETS, "add nonsense ip sluice a\n", "nonsense\n"] },
];
