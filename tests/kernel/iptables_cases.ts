import type { Step } from "./tool_steps.ts";

/** Input for both the real and the fake iptables, with an empty kernel. */
export interface IptablesCase {
  readonly name: string;
  /** IPv4 by default. */
  readonly family?: "IPv4" | "IPv6";
  /** The input of iptables-restore, or several inputs in turn. */
  readonly input?: string | readonly string[];
  /** Steps to run afterwards. */
  readonly then?: readonly Step[];
}

/** A run of iptables on the nat table. */
const nat = (words: string): Step => ({ tool: "iptables", args: ["-w", "5", "-t", "nat", ...words.split(" ")] });

/** A case with one table as the input. */
const inTable = (table: string, name: string, ...lines: readonly string[]): IptablesCase => ({
  name,
  input: [`*${table}`, ...lines, "COMMIT", ""].join("\n"),
});

/** Inputs whose handling differs between the flavours of iptables, or is specific. */
export const CASES: readonly IptablesCase[] = [
  {
    name: "the listing of rules of every kind",
    input: String.raw`*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-A - [0:0]
:KUBE-MARK - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment plain -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.10/32 -p udp -m comment --comment "kube-system/dns:dns cluster IP" -m udp --dport 53 -j KUBE-SVC-A
-A KUBE-SERVICES -d 10.96.0.10 -p tcp -m tcp --dport 53 -j KUBE-SVC-A
-A KUBE-SERVICES -p sctp -d 10.96.0.10 -m sctp --dport 53 -j KUBE-SVC-A
-A KUBE-SERVICES -d 10.96.0.0/16 -j KUBE-SVC-A
-A KUBE-SERVICES ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j KUBE-SVC-A
-A KUBE-SERVICES -m addrtype --src-type LOCAL --dst-type LOCAL -j KUBE-MARK
-A KUBE-SERVICES -m addrtype ! --src-type LOCAL -j KUBE-MARK
-A KUBE-SERVICES -p tcp -m tcp --dport 30000:30015 -j KUBE-SVC-A
-A KUBE-SERVICES -p tcp -m tcp --dport 30000: -j KUBE-SVC-A
-A KUBE-SERVICES -p tcp -m tcp --dport :30 -j KUBE-SVC-A
-A KUBE-SERVICES -p tcp -m tcp ! --dport 30 -j KUBE-SVC-A
-A KUBE-SERVICES -p tcp --dport 30 -j KUBE-SVC-A
-A KUBE-SERVICES -p tcp --sport 30 --dport 31 -j KUBE-SVC-A
-A KUBE-SERVICES -s 10.0.0.0/8 -i eth0 -j KUBE-SVC-A
-A KUBE-SERVICES ! -s 10.0.0.0/8 ! -i veth+ -j KUBE-SVC-A
-A KUBE-SVC-A -m statistic --mode random --probability 0.5 -j RETURN
-A KUBE-SVC-A -m statistic --mode random --probability 0.2500000000 -j RETURN
-A KUBE-SVC-A -m statistic --mode random --probability 0.1 -j RETURN
-A KUBE-SVC-A -m statistic --mode random --probability 1.0 -j RETURN
-A KUBE-SVC-A -m recent --name KUBE-SEP-X --rcheck --seconds 10800 --reap -j RETURN
-A KUBE-SVC-A -m recent --name KUBE-SEP-X --update --seconds 10800 --reap --mask 255.255.255.255 --rsource -j RETURN
-A KUBE-SVC-A -p tcp -m recent --name KUBE-SEP-X --set -m tcp -j DNAT --to-destination 10.1.0.1:53
-A KUBE-SVC-A -p tcp -m recent --set --name KUBE-SEP-X -j DNAT --to-destination 10.1.0.1
-A KUBE-SVC-A -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-SVC-A -m mark --mark 16384 -j RETURN
-A KUBE-SVC-A -p tcp -j REDIRECT --to-ports 41000
-A KUBE-SVC-A -p udp -j REDIRECT --to-ports 41000 --random
-A KUBE-SVC-A -j REDIRECT
-A KUBE-SVC-A -j MARK --xor-mark 0x4000
-A KUBE-SVC-A -j MARK --or-mark 0x4000
-A KUBE-SVC-A -j MARK --and-mark 0x4000
-A KUBE-SVC-A -j MARK --set-mark 0x4000
-A KUBE-SVC-A -j MARK --set-mark 0x4000/0x4000
-A KUBE-SVC-A -j MARK --set-xmark 0x4000/0x4000
-A KUBE-SVC-A -j MARK --set-xmark 0x4000
-A KUBE-SVC-A -m bpf --bytecode "4,32 0 0 12,7 0 0 0,32 0 0 16,6 0 0 1" -j RETURN
-A KUBE-SVC-A -m comment --comment "quote \" in it" -j ACCEPT
-A KUBE-SVC-A -m comment --comment "back\\slash it's" -j ACCEPT
-A KUBE-SVC-A -m conntrack --ctstate NEW,INVALID -j ACCEPT
-A KUBE-SVC-A -m conntrack --ctstate ESTABLISHED,RELATED,DNAT -j ACCEPT
-A KUBE-SVC-A -m conntrack ! --ctstate INVALID -j ACCEPT
-A KUBE-SVC-A -g KUBE-MARK
-A KUBE-SVC-A -m mark --mark 0x4000/0x4000
-A KUBE-SVC-A -d 0.0.0.0/0 -p all -j ACCEPT
-A KUBE-SVC-A -d 10.1.2.3/255.255.255.0 -p 17 -j ACCEPT
COMMIT
*filter
:KUBE-FORWARD - [0:0]
:KUBE-EMPTY - [5:60]
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-FORWARD
-A KUBE-FORWARD -j REJECT
-A KUBE-FORWARD -p tcp -j REJECT --reject-with tcp-reset
-A KUBE-FORWARD -j REJECT --reject-with icmp-host-prohibited
-A KUBE-FORWARD -o cni0 -j DROP
COMMIT
*mangle
:KUBE-IPTABLES-HINT - [0:0]
COMMIT
`,
  },
  {
    name: "the listing of DNAT, masquerading, affinity and probability",
    input: String.raw`*nat
:P - [0:0]
:D - [0:0]
-A POSTROUTING -j P
-A P -j MASQUERADE --random-fully
-A P -m mark ! --mark 0x4000/0x4000 -j RETURN
-A P -j MARK --xor-mark 0x4000
-A P -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
-A OUTPUT -d 10.1.1.1/32 ! -s 10.3.0.0/16 -j D
-A D -p tcp -m tcp -m recent --set --name X --rsource -j DNAT --to-destination 10.1.1.2:80
-A D -p tcp -m recent --rcheck --name X --rdest -j DNAT --to-destination 10.1.1.2:80 --random
-A D -p tcp -m recent --rcheck -j DNAT --to-destination 10.1.1.2:80 --persistent
-A D -p tcp -m recent ! --rcheck --name Y -j RETURN
-A D -p tcp -m recent --remove --name Y -j RETURN
-A D -m statistic --mode random ! --probability 0.3 -j RETURN
-A D -m statistic --mode random --probability 0.00001 -j RETURN
-A D -m statistic --mode random --probability 0.00024414063 -j RETURN
-A D -m statistic --mode random --probability 0.00073242187 -j RETURN
-A D -m statistic --mode random --probability 0.00020000013 -j RETURN
-A D -m statistic --mode random --probability 0 -j RETURN
COMMIT
`,
  },
  {
    name: "the listing of IPv6 rules",
    family: "IPv6",
    input: String.raw`*nat
:D - [0:0]
-A OUTPUT -d fd00:0::1/128 -p tcp -m tcp --dport 80 -j D
-A OUTPUT -d fd00::/108 -j D
-A OUTPUT -d ::/0 -j D
-A OUTPUT ! -d ::1/128 -j D
-A OUTPUT ! -s ::ffff:1.2.3.4 -p udp -m udp --dport 5 -j D
-A OUTPUT -p icmpv6 -j D
-A D -p tcp -m tcp -m recent --set --name X --rsource -j DNAT --to-destination [fd00::2]:80
-A D -p tcp -j DNAT --to-destination fd00::2
-A D -p tcp -m recent --rcheck --seconds 5 --reap --name X -m tcp -j DNAT --to-destination [fd00:0::2]:80
COMMIT
*filter
:F - [0:0]
-A F -j REJECT
-A F -p tcp -j REJECT --reject-with tcp-reset
-A F -p icmp -j ACCEPT
COMMIT
`,
  },
  {
    name: "the listing of comments",
    input: String.raw`*filter
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED,NEW,INVALID,UNTRACKED,SNAT,DNAT -j ACCEPT
-A FORWARD -m addrtype --dst-type LOCAL,BROADCAST -j ACCEPT
-A FORWARD -m comment --comment simple:word/with-chars_1.2 -j ACCEPT
-A FORWARD -m comment --comment "ns/svc:p has no endpoints" -m tcp -p tcp -d 1.2.3.4/32 --dport 80 -j REJECT
-A FORWARD -m comment --comment "" -j ACCEPT
-A FORWARD -m comment --comment "a$b" -j ACCEPT
-A FORWARD -m comment --comment "a;b" -j ACCEPT
-A FORWARD -m comment --comment "-a" -j ACCEPT
-A FORWARD -m comment --comment "é" -j ACCEPT
-A FORWARD -m comment --comment "a,b" -j ACCEPT
-A FORWARD -m comment --comment "[a]" -j ACCEPT
-A FORWARD -m comment --comment a=b -j ACCEPT
-A FORWARD -m comment --comment a#b -j ACCEPT
-A FORWARD -m comment --comment a@b+c%d -j ACCEPT
COMMIT
`,
  },
  inTable(
    "nat",
    "a jump to a chain that does not exist",
    ":KUBE-A - [0:0]",
    "-A KUBE-A -j ACCEPT",
    "-A KUBE-A -j KUBE-NOPE",
  ),
  inTable("nat", "a rule for a chain that does not exist", ":KUBE-A - [0:0]", "-A KUBE-B -j ACCEPT"),
  inTable(
    "nat",
    "the deletion of a referenced chain",
    ":KUBE-A - [0:0]",
    ":KUBE-B - [0:0]",
    "-A KUBE-A -j KUBE-B",
    "-X KUBE-B",
  ),
  inTable("nat", "the deletion of a chain with rules", ":KUBE-A - [0:0]", "-A KUBE-A -j ACCEPT", "-X KUBE-A"),
  inTable("nat", "the deletion of a rule that does not exist", ":KUBE-A - [0:0]", "-D KUBE-A -j ACCEPT"),
  inTable("nat", "an unknown option", ":KUBE-A - [0:0]", "-A KUBE-A --nope 3 -j ACCEPT"),
  inTable("nat", "an invalid address", ":KUBE-A - [0:0]", "-A KUBE-A -d 10.0.0.300/32 -j ACCEPT"),
  inTable("nat", "the deletion of a chain that does not exist", "-X KUBE-ZZ"),
  {
    name: "an unknown table",
    input: "*nope\nCOMMIT\n",
  },
  {
    name: "input without COMMIT",
    input: "*nat\n:KUBE-A - [0:0]\n",
  },
  inTable("nat", "a line that is not a command", "hello"),
  {
    name: "an error in the second table",
    input: String.raw`*filter
:KUBE-A - [0:0]
COMMIT
*nat
-A NOPE -j ACCEPT
COMMIT
`,
  },
  inTable(
    "nat",
    "an insertion beyond the end",
    ":KUBE-A - [0:0]",
    "-A KUBE-A -j ACCEPT",
    "-I KUBE-A -j RETURN",
    "-I KUBE-A 2 -s 10.0.0.1 -j RETURN",
    "-I KUBE-A 9 -j RETURN",
  ),
  inTable("nat", "a deletion beyond the end", ":KUBE-A - [0:0]", "-A KUBE-A -j ACCEPT", "-D KUBE-A 2"),
  inTable("nat", "an invalid port", ":KUBE-A - [0:0]", "-A KUBE-A -p tcp -m tcp --dport 99999 -j ACCEPT"),
  inTable("nat", "an unknown match", ":KUBE-A - [0:0]", "-A KUBE-A -m nosuch -j ACCEPT"),
  inTable(
    "nat",
    "a probability above 1",
    ":KUBE-A - [0:0]",
    "-A KUBE-A -m statistic --mode random --probability 1.5 -j ACCEPT",
  ),
  inTable(
    "filter",
    "a target in the wrong table",
    ":KUBE-A - [0:0]",
    "-A KUBE-A -p tcp -j DNAT --to-destination 10.0.0.1:80",
  ),
  inTable("nat", "a DNAT port without a protocol", ":KUBE-A - [0:0]", "-A KUBE-A -j DNAT --to-destination 10.0.0.1:80"),
  inTable("nat", "a chain name that is too long", ":KUBE-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA - [0:0]"),
  inTable(
    "nat",
    "a loop of chains that no packet reaches",
    ":KUBE-A - [0:0]",
    ":KUBE-B - [0:0]",
    "-A KUBE-A -j KUBE-B",
    "-A KUBE-B -j KUBE-A",
  ),
  inTable("nat", "a flush of a chain that does not exist", "-F NOPE"),
  inTable("nat", "the creation of a chain that exists", "-N KUBE-A", "-N KUBE-A"),
  inTable("filter", "a policy", ":FORWARD DROP [0:0]", "-A FORWARD -j ACCEPT"),
  inTable("filter", "a policy set with -P", "-P FORWARD DROP"),
  inTable("filter", "the deletion of a built-in chain", "-X FORWARD"),
  inTable("filter", "an option without its value", "-A FORWARD -d"),
  {
    name: "a command after COMMIT",
    input: String.raw`*filter
COMMIT
-A FORWARD -j ACCEPT
`,
  },
  inTable("filter", "a port without a protocol", "-A FORWARD --dport 30 -j ACCEPT"),
  inTable("nat", "MASQUERADE in PREROUTING", "-A PREROUTING -j MASQUERADE"),
  inTable(
    "nat",
    "counters without --counters",
    ":PREROUTING ACCEPT [3:180]",
    ":KUBE-A - [5:66]",
    "[7:420] -A KUBE-A -j ACCEPT",
  ),
  inTable("nat", "REJECT in the nat table", ":KUBE-A - [0:0]", "-A KUBE-A -j REJECT"),
  inTable(
    "nat",
    "a loop of chains that packets reach",
    ":KUBE-A - [0:0]",
    ":KUBE-B - [0:0]",
    "-A PREROUTING -j KUBE-A",
    "-A KUBE-A -j KUBE-B",
    "-A KUBE-B -j KUBE-A",
  ),
  inTable(
    "nat",
    "a flush and deletion in one transaction",
    ":KUBE-A - [0:0]",
    "-A KUBE-A -j ACCEPT",
    "-F KUBE-A",
    "-X KUBE-A",
  ),
  inTable(
    "nat",
    "the redeclaration and deletion of chains with a jump between them",
    ":KUBE-A - [0:0]",
    ":KUBE-B - [0:0]",
    "-A KUBE-A -j KUBE-B",
    ":KUBE-A - [0:0]",
    "-X KUBE-B",
    "-X KUBE-A",
  ),
  inTable(
    "nat",
    "a jump to a chain that is declared later",
    ":KUBE-A - [0:0]",
    "-A KUBE-A -j KUBE-B",
    ":KUBE-B - [0:0]",
  ),
  inTable(
    "nat",
    "a jump to a chain that was deleted before",
    ":KUBE-A - [0:0]",
    ":KUBE-B - [0:0]",
    "-X KUBE-B",
    "-A KUBE-A -j KUBE-B",
  ),
  {
    name: "comments and empty lines",
    input: String.raw`# hello

*nat
# hi
:KUBE-A - [0:0]

COMMIT
# Completed
`,
  },
  inTable("nat", "an invalid DNAT port", ":KUBE-A - [0:0]", "-A KUBE-A -p tcp -j DNAT --to-destination 10.0.0.1:99999"),
  inTable(
    "nat",
    "an invalid DNAT address",
    ":KUBE-A - [0:0]",
    "-A KUBE-A -p tcp -j DNAT --to-destination 10.0.0.1.2:99",
  ),
  inTable("nat", "a chain without a policy", ":KUBE-A"),
  inTable("nat", "a chain named like a target", ":ACCEPT - [0:0]"),
  inTable("nat", "two targets", "-A OUTPUT -j ACCEPT -j DROP"),
  inTable("nat", "two destinations", "-A OUTPUT -d 10.0.0.1 -d 10.0.0.2 -j DROP"),
  inTable("nat", "an IPv6 address for IPv4", "-A OUTPUT -d fd00::1/128 -j ACCEPT"),
  inTable("nat", "a prefix length that is too long", "-A OUTPUT -d 10.0.0.1/33 -j ACCEPT"),
  inTable("nat", "an unknown protocol", "-A OUTPUT -p nope -j ACCEPT", "-A OUTPUT -p icmp -j ACCEPT"),
  inTable("nat", "recent without an action", "-A OUTPUT -m recent --name X -j ACCEPT"),
  {
    name: "a table that appears twice",
    input: String.raw`*nat
:A - [0:0]
COMMIT
*nat
:B - [0:0]
COMMIT
`,
  },
  inTable("nat", "a policy for a built-in chain of nat", ":PREROUTING DROP [0:0]"),
  inTable("nat", "an unknown connection state", "-A OUTPUT -m conntrack --ctstate FOO -j ACCEPT"),
  inTable("nat", "rule number 0", "-I OUTPUT 0 -j ACCEPT"),
  inTable("nat", "DROP in the nat table", ":K - [0:0]", "-A K -j DROP"),
  inTable("nat", "-t inside the input", "-t filter -A OUTPUT -j ACCEPT"),
  inTable("nat", "an incoming interface in OUTPUT", "-A OUTPUT -i eth0 -j ACCEPT"),
  inTable("nat", "a chain that jumps to itself", ":KUBE-A - [0:0]", "-A KUBE-A -j KUBE-A"),
  inTable("nat", "a jump to a built-in chain", ":KUBE-A - [0:0]", "-A KUBE-A -j PREROUTING"),
  {
    name: "empty input",
    input: "",
  },
  {
    name: "a last line without a newline",
    input: "*nat\n:KUBE-A - [0:0]\nCOMMIT",
  },
  inTable("nat", "a BPF program that is too short", '-A OUTPUT -m bpf --bytecode "9,32 0 0 12,7 0 0 0" -j ACCEPT'),
  inTable(
    "nat",
    "the deletion of a rule with its matches in another order",
    "-A OUTPUT -d 10.0.0.1/32 -p tcp -m comment --comment x -m tcp --dport 80 -j ACCEPT",
    "-A OUTPUT -j ACCEPT",
    '-D OUTPUT -p tcp -d 10.0.0.1 -m tcp --dport 80 -m comment --comment "x" -j ACCEPT',
  ),
  inTable(
    "nat",
    "the deletion of a rule in another spelling",
    "-A OUTPUT -d 10.0.0.1/32 -p tcp -m comment --comment x -m tcp --dport 80 -j ACCEPT",
    "-A OUTPUT -j ACCEPT",
    '-D OUTPUT -p tcp -d 10.0.0.1 -m comment --comment "x" -m tcp --dport 80 -j ACCEPT',
  ),
  inTable(
    "nat",
    "an insertion at the head and in the middle",
    ":A - [0:0]",
    ":B - [0:0]",
    "-A A -j ACCEPT",
    "-I A -j RETURN",
    "-I A 2 -s 10.0.0.1 -j RETURN",
    "-I A 4 -s 10.0.0.2 -j RETURN",
  ),
  {
    name: "several inputs that change the same chains",
    input: [
      String.raw`*nat
:A - [0:0]
:B - [0:0]
-A A -j B
-A B -j RETURN
-A OUTPUT -j A
COMMIT
`,
      String.raw`*nat
:A - [0:0]
:C - [0:0]
-A A -j C
-X B
COMMIT
`,
      String.raw`*nat
:A - [0:0]
:B - [0:0]
-A A -j C
-X B
COMMIT
`,
      String.raw`*nat
:C - [0:0]
-D OUTPUT -j A
:A - [0:0]
-X A
-X C
COMMIT
`,
    ],
  },
  {
    name: "refused inputs, which change nothing",
    input: [
      String.raw`*nat
:A - [0:0]
:B - [0:0]
-A A -j B
-A OUTPUT -j A
COMMIT
`,
      String.raw`*nat
:A - [0:0]
:NEW - [0:0]
-A A -j NEW
-D OUTPUT -j B
COMMIT
`,
      String.raw`*nat
:A - [0:0]
-A A -j RETURN
-X A
COMMIT
`,
      String.raw`*nat
:A - [0:0]
-A A -j ACCEPT
-A A --nope
COMMIT
`,
    ],
  },
  inTable(
    "nat",
    "a syntax error after a line that the kernel refuses",
    ":A - [0:0]",
    ":B - [0:0]",
    "-X NONE",
    "-A A --nope",
  ),
  inTable(
    "filter",
    "two lines that the kernel refuses",
    ":A - [0:0]",
    ":B - [0:0]",
    "-A A -j ACCEPT",
    "-A B -j ACCEPT",
    "-X A",
    "-X B",
  ),
  inTable("nat", "a protocol match for another protocol", ":A - [0:0]", ":B - [0:0]", "-A A -p udp -m tcp -j ACCEPT"),
  inTable("nat", "a reversed port range", ":A - [0:0]", ":B - [0:0]", "-A A -p tcp -m tcp --dport 90:80 -j ACCEPT"),
  inTable("filter", "tcp-reset without -p tcp", ":A - [0:0]", "-A A -j REJECT --reject-with tcp-reset"),
  inTable("filter", "an unknown --reject-with", ":A - [0:0]", "-A A -j REJECT --reject-with nope"),
  inTable("nat", "addrtype without an option", ":A - [0:0]", ":B - [0:0]", "-A A -m addrtype -j RETURN"),
  inTable("nat", "mark without an option", ":A - [0:0]", ":B - [0:0]", "-A A -m mark -j RETURN"),
  inTable(
    "nat",
    "statistic without an option",
    ":A - [0:0]",
    ":B - [0:0]",
    "-A A -m statistic --mode random -j RETURN",
  ),
  inTable("nat", "conntrack without an option", ":A - [0:0]", ":B - [0:0]", "-A A -m conntrack -j RETURN"),
  inTable("nat", "comment without an option", ":A - [0:0]", ":B - [0:0]", "-A A -m comment -j RETURN"),
  inTable("nat", "an invalid mark", ":A - [0:0]", ":B - [0:0]", "-A A -m mark --mark zz -j RETURN"),
  inTable("nat", "REDIRECT to a port without a protocol", ":A - [0:0]", "-A A -j REDIRECT --to-ports 41000"),
  inTable("nat", "REDIRECT to an invalid port", ":A - [0:0]", "-A A -p tcp -j REDIRECT --to-ports 99999"),
  inTable("filter", "REDIRECT in another table", ":A - [0:0]", "-A A -p tcp -j REDIRECT --to-ports 41000"),
  inTable("nat", "REDIRECT in a hook that has none", "-A POSTROUTING -p tcp -j REDIRECT --to-ports 41000"),
  inTable("nat", "DNAT without a destination", ":A - [0:0]", ":B - [0:0]", "-A A -j DNAT"),
  inTable("nat", "MARK without a mark", ":A - [0:0]", ":B - [0:0]", "-A A -j MARK"),
  inTable("nat", "a target without a name", ":A - [0:0]", ":B - [0:0]", "-A A -j"),
  inTable("nat", "an unexpected word", ":A - [0:0]", ":B - [0:0]", "-A A -d 1.2.3.4 x -j RETURN"),
  inTable(
    "nat",
    "the hairpin rule",
    ":A - [0:0]",
    ":B - [0:0]",
    "-A POSTROUTING -j A",
    '-A A -m conntrack --ctstate DNAT -m bpf --bytecode "6,32 0 0 12,7 0 0 0,32 0 0 16,29 0 1 0,6 0 0 1,6 0 0 0" -j MASQUERADE --random-fully',
  ),
  {
    name: "single commands",
    then: [
      { tool: "iptables", args: ["--version"] },
      { tool: "iptables", args: ["-t", "nat", "-N", "A"] },
      { tool: "iptables", args: ["-t", "nat", "-N", "A"] },
      nat("-A A -d 1.2.3.4 -p udp --dport 53 -j ACCEPT"),
      nat("-C A -d 1.2.3.4 -p udp --dport 53 -j ACCEPT"),
      nat("-C A -d 1.2.3.5 -p udp --dport 53 -j ACCEPT"),
      nat("-D A -d 1.2.3.5 -p udp --dport 53 -j ACCEPT"),
      nat("-D A 7"),
      nat("-C A -j NOPE"),
      nat("-A A -j NOPE"),
      nat("-A NONE -j ACCEPT"),
      nat("-I A 9 -j ACCEPT"),
      nat("-I A -s 10.0.0.0/8 -j RETURN"),
      nat("-X A"),
      nat("-X NONE"),
      nat("-F NONE"),
      nat("-A OUTPUT -j A"),
      nat("-F A"),
      nat("-X A"),
      nat("-S"),
      nat("-S A"),
      nat("-S OUTPUT"),
      nat("-S NONE"),
      nat("-L A -n"),
      nat("-L NONE -n"),
      { tool: "iptables", args: ["-w", "5", "-t", "nope", "-L"] },
      nat("-D OUTPUT -j A"),
      { tool: "iptables", args: ["-w", "5", "--nope"] },
      { tool: "iptables", args: ["-w", "5", "-t", "mangle", "-S"] },
      { tool: "iptables", args: ["-w", "5", "-t", "filter", "-P", "FORWARD", "DROP"] },
      { tool: "iptables", args: [] },
    ],
  },
  {
    name: "the listing with counters",
    input: String.raw`*nat
:KUBE-SVC-A - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SVC-A
-A KUBE-SVC-A -p tcp -m statistic --mode random --probability 0.5 -j DNAT --to-destination 10.1.0.1:80
-A KUBE-SVC-A -p tcp -j DNAT --to-destination 10.1.0.2:80
-A KUBE-SVC-A -m comment --comment "no target"
-A KUBE-SVC-A
COMMIT
*filter
:KUBE-SERVICES - [0:0]
-A KUBE-SERVICES -d 10.96.0.11/32 -p tcp -m comment --comment "default/empty has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
-A KUBE-SERVICES -d 10.96.0.12/32 -p tcp -m comment --comment "default/far has no local endpoints" -m tcp --dport 80 -j DROP
COMMIT
`,
    then: [
      nat("-v -S"),
      nat("-v -S KUBE-SVC-A"),
      nat("-v -S NONE"),
      { tool: "iptables", args: ["-w", "1", "-t", "filter", "-v", "-S"] },
    ],
  },
  {
    name: "the options of iptables-restore and iptables-save",
    then: [
      { tool: "iptables-restore", args: ["--noflush", "--test"], stdin: "*nat\n:B - [0:0]\nCOMMIT\n" },
      {
        tool: "iptables-restore",
        args: ["--noflush", "--counters", "-w", "5", "-T", "nat"],
        stdin: "*filter\n:C - [0:0]\nCOMMIT\n*nat\n:B - [0:0]\n[0:0] -A B -j ACCEPT\nCOMMIT\n",
      },
      { tool: "iptables-save", args: ["-t", "nat"] },
      { tool: "iptables-save", args: ["-t", "mangle"] },
      { tool: "iptables-restore", args: [], stdin: "*nat\n:C - [0:0]\nCOMMIT\n" },
      { tool: "iptables-restore", args: ["--nope"], stdin: "" },
      { tool: "iptables-restore", args: ["--version"] },
      { tool: "iptables-save", args: ["--version"] },
    ],
  },
];
