import type { Step } from "./tool_steps.ts";

/** What is given to the real iptables and to the fake one, in an empty kernel. */
export interface IptablesCase {
  readonly name: string;
  /** IPv4 by default. */
  readonly family?: "IPv4" | "IPv6";
  /** What iptables-restore gets: one input, or several in turn. */
  readonly input?: string | readonly string[];
  /** What is run after that. */
  readonly then?: readonly Step[];
}

/** Inputs that every flavour of iptables takes or refuses in a way of its own. */
export const CASES: readonly IptablesCase[] = [
  {
    name: "rules of every kind, as they are printed",
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
    name: "translation, masquerading, affinity and chance, as they are printed",
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
    name: "IPv6 rules, as they are printed",
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
    name: "comments, as they are printed",
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
  {
    name: "a jump to a chain that does not exist",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A -j ACCEPT
-A KUBE-A -j KUBE-NOPE
COMMIT
`,
  },
  {
    name: "a rule for a chain that does not exist",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-B -j ACCEPT
COMMIT
`,
  },
  {
    name: "removing a chain that is referred to",
    input: String.raw`*nat
:KUBE-A - [0:0]
:KUBE-B - [0:0]
-A KUBE-A -j KUBE-B
-X KUBE-B
COMMIT
`,
  },
  {
    name: "removing a chain that holds rules",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A -j ACCEPT
-X KUBE-A
COMMIT
`,
  },
  {
    name: "deleting a rule that does not exist",
    input: String.raw`*nat
:KUBE-A - [0:0]
-D KUBE-A -j ACCEPT
COMMIT
`,
  },
  {
    name: "an option that does not exist",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A --nope 3 -j ACCEPT
COMMIT
`,
  },
  {
    name: "an address that is none",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A -d 10.0.0.300/32 -j ACCEPT
COMMIT
`,
  },
  {
    name: "removing a chain that does not exist",
    input: String.raw`*nat
-X KUBE-ZZ
COMMIT
`,
  },
  {
    name: "a table that does not exist",
    input: "*nope\nCOMMIT\n",
  },
  {
    name: "an input without its end",
    input: "*nat\n:KUBE-A - [0:0]\n",
  },
  {
    name: "a line that is no command",
    input: String.raw`*nat
hello
COMMIT
`,
  },
  {
    name: "a second table that fails",
    input: String.raw`*filter
:KUBE-A - [0:0]
COMMIT
*nat
-A NOPE -j ACCEPT
COMMIT
`,
  },
  {
    name: "an insertion beyond the end",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A -j ACCEPT
-I KUBE-A -j RETURN
-I KUBE-A 2 -s 10.0.0.1 -j RETURN
-I KUBE-A 9 -j RETURN
COMMIT
`,
  },
  {
    name: "a deletion beyond the end",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A -j ACCEPT
-D KUBE-A 2
COMMIT
`,
  },
  {
    name: "a port that is none",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A -p tcp -m tcp --dport 99999 -j ACCEPT
COMMIT
`,
  },
  {
    name: "a match that does not exist",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A -m nosuch -j ACCEPT
COMMIT
`,
  },
  {
    name: "a probability above 1",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A -m statistic --mode random --probability 1.5 -j ACCEPT
COMMIT
`,
  },
  {
    name: "a target in the wrong table",
    input: String.raw`*filter
:KUBE-A - [0:0]
-A KUBE-A -p tcp -j DNAT --to-destination 10.0.0.1:80
COMMIT
`,
  },
  {
    name: "a port to translate to without a protocol",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A -j DNAT --to-destination 10.0.0.1:80
COMMIT
`,
  },
  {
    name: "a chain name that is too long",
    input: String.raw`*nat
:KUBE-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA - [0:0]
COMMIT
`,
  },
  {
    name: "chains in a ring that no packet can reach",
    input: String.raw`*nat
:KUBE-A - [0:0]
:KUBE-B - [0:0]
-A KUBE-A -j KUBE-B
-A KUBE-B -j KUBE-A
COMMIT
`,
  },
  {
    name: "emptying a chain that does not exist",
    input: String.raw`*nat
-F NOPE
COMMIT
`,
  },
  {
    name: "making a chain that exists",
    input: String.raw`*nat
-N KUBE-A
-N KUBE-A
COMMIT
`,
  },
  {
    name: "a policy",
    input: String.raw`*filter
:FORWARD DROP [0:0]
-A FORWARD -j ACCEPT
COMMIT
`,
  },
  {
    name: "a policy by command",
    input: String.raw`*filter
-P FORWARD DROP
COMMIT
`,
  },
  {
    name: "removing a built-in chain",
    input: String.raw`*filter
-X FORWARD
COMMIT
`,
  },
  {
    name: "an option without its value",
    input: String.raw`*filter
-A FORWARD -d
COMMIT
`,
  },
  {
    name: "a command after the end",
    input: String.raw`*filter
COMMIT
-A FORWARD -j ACCEPT
`,
  },
  {
    name: "a port without a protocol",
    input: String.raw`*filter
-A FORWARD --dport 30 -j ACCEPT
COMMIT
`,
  },
  {
    name: "MASQUERADE where packets arrive",
    input: String.raw`*nat
-A PREROUTING -j MASQUERADE
COMMIT
`,
  },
  {
    name: "counters that are not asked for",
    input: String.raw`*nat
:PREROUTING ACCEPT [3:180]
:KUBE-A - [5:66]
[7:420] -A KUBE-A -j ACCEPT
COMMIT
`,
  },
  {
    name: "REJECT in the nat table",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A -j REJECT
COMMIT
`,
  },
  {
    name: "chains in a ring that packets reach",
    input: String.raw`*nat
:KUBE-A - [0:0]
:KUBE-B - [0:0]
-A PREROUTING -j KUBE-A
-A KUBE-A -j KUBE-B
-A KUBE-B -j KUBE-A
COMMIT
`,
  },
  {
    name: "emptying and removing at once",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A -j ACCEPT
-F KUBE-A
-X KUBE-A
COMMIT
`,
  },
  {
    name: "declaring again, and removing, chains that refer to each other",
    input: String.raw`*nat
:KUBE-A - [0:0]
:KUBE-B - [0:0]
-A KUBE-A -j KUBE-B
:KUBE-A - [0:0]
-X KUBE-B
-X KUBE-A
COMMIT
`,
  },
  {
    name: "a chain that is declared after the jump to it",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A -j KUBE-B
:KUBE-B - [0:0]
COMMIT
`,
  },
  {
    name: "a jump to a chain that was just removed",
    input: String.raw`*nat
:KUBE-A - [0:0]
:KUBE-B - [0:0]
-X KUBE-B
-A KUBE-A -j KUBE-B
COMMIT
`,
  },
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
  {
    name: "a port to translate to that is none",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A -p tcp -j DNAT --to-destination 10.0.0.1:99999
COMMIT
`,
  },
  {
    name: "an address to translate to that is none",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A -p tcp -j DNAT --to-destination 10.0.0.1.2:99
COMMIT
`,
  },
  {
    name: "a chain without a policy",
    input: String.raw`*nat
:KUBE-A
COMMIT
`,
  },
  {
    name: "a chain named like a target",
    input: String.raw`*nat
:ACCEPT - [0:0]
COMMIT
`,
  },
  {
    name: "two targets",
    input: String.raw`*nat
-A OUTPUT -j ACCEPT -j DROP
COMMIT
`,
  },
  {
    name: "two destinations",
    input: String.raw`*nat
-A OUTPUT -d 10.0.0.1 -d 10.0.0.2 -j DROP
COMMIT
`,
  },
  {
    name: "an IPv6 address for IPv4",
    input: String.raw`*nat
-A OUTPUT -d fd00::1/128 -j ACCEPT
COMMIT
`,
  },
  {
    name: "a mask that is too long",
    input: String.raw`*nat
-A OUTPUT -d 10.0.0.1/33 -j ACCEPT
COMMIT
`,
  },
  {
    name: "a protocol that does not exist",
    input: String.raw`*nat
-A OUTPUT -p nope -j ACCEPT
-A OUTPUT -p icmp -j ACCEPT
COMMIT
`,
  },
  {
    name: "recent that says not what to do",
    input: String.raw`*nat
-A OUTPUT -m recent --name X -j ACCEPT
COMMIT
`,
  },
  {
    name: "a table in two parts",
    input: String.raw`*nat
:A - [0:0]
COMMIT
*nat
:B - [0:0]
COMMIT
`,
  },
  {
    name: "a policy for a built-in chain of nat",
    input: String.raw`*nat
:PREROUTING DROP [0:0]
COMMIT
`,
  },
  {
    name: "a connection state that does not exist",
    input: String.raw`*nat
-A OUTPUT -m conntrack --ctstate FOO -j ACCEPT
COMMIT
`,
  },
  {
    name: "rule number 0",
    input: String.raw`*nat
-I OUTPUT 0 -j ACCEPT
COMMIT
`,
  },
  {
    name: "DROP in the nat table",
    input: String.raw`*nat
:K - [0:0]
-A K -j DROP
COMMIT
`,
  },
  {
    name: "a table as an argument",
    input: String.raw`*nat
-t filter -A OUTPUT -j ACCEPT
COMMIT
`,
  },
  {
    name: "an incoming interface for what is sent",
    input: String.raw`*nat
-A OUTPUT -i eth0 -j ACCEPT
COMMIT
`,
  },
  {
    name: "a chain that jumps to itself",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A -j KUBE-A
COMMIT
`,
  },
  {
    name: "a jump to a built-in chain",
    input: String.raw`*nat
:KUBE-A - [0:0]
-A KUBE-A -j PREROUTING
COMMIT
`,
  },
  {
    name: "an empty input",
    input: "",
  },
  {
    name: "an end without a newline",
    input: "*nat\n:KUBE-A - [0:0]\nCOMMIT",
  },
  {
    name: "a BPF program that is too short",
    input: String.raw`*nat
-A OUTPUT -m bpf --bytecode "9,32 0 0 12,7 0 0 0" -j ACCEPT
COMMIT
`,
  },
  {
    name: "deleting a rule whose matches stand in another order",
    input: String.raw`*nat
-A OUTPUT -d 10.0.0.1/32 -p tcp -m comment --comment x -m tcp --dport 80 -j ACCEPT
-A OUTPUT -j ACCEPT
-D OUTPUT -p tcp -d 10.0.0.1 -m tcp --dport 80 -m comment --comment "x" -j ACCEPT
COMMIT
`,
  },
  {
    name: "deleting a rule that is spelled otherwise",
    input: String.raw`*nat
-A OUTPUT -d 10.0.0.1/32 -p tcp -m comment --comment x -m tcp --dport 80 -j ACCEPT
-A OUTPUT -j ACCEPT
-D OUTPUT -p tcp -d 10.0.0.1 -m comment --comment "x" -m tcp --dport 80 -j ACCEPT
COMMIT
`,
  },
  {
    name: "an insertion at the head and in the middle",
    input: String.raw`*nat
:A - [0:0]
:B - [0:0]
-A A -j ACCEPT
-I A -j RETURN
-I A 2 -s 10.0.0.1 -j RETURN
-I A 4 -s 10.0.0.2 -j RETURN
COMMIT
`,
  },
  {
    name: "what a later input does to an earlier one",
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
    name: "an input that fails leaves what was there",
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
  {
    name: "a wrong line before a line that the kernel refuses",
    input: String.raw`*nat
:A - [0:0]
:B - [0:0]
-X NONE
-A A --nope
COMMIT
`,
  },
  {
    name: "two refusals",
    input: String.raw`*filter
:A - [0:0]
:B - [0:0]
-A A -j ACCEPT
-A B -j ACCEPT
-X A
-X B
COMMIT
`,
  },
  {
    name: "a protocol match for another protocol",
    input: String.raw`*nat
:A - [0:0]
:B - [0:0]
-A A -p udp -m tcp -j ACCEPT
COMMIT
`,
  },
  {
    name: "ports in the wrong order",
    input: String.raw`*nat
:A - [0:0]
:B - [0:0]
-A A -p tcp -m tcp --dport 90:80 -j ACCEPT
COMMIT
`,
  },
  {
    name: "a reset for any protocol",
    input: String.raw`*filter
:A - [0:0]
-A A -j REJECT --reject-with tcp-reset
COMMIT
`,
  },
  {
    name: "a way to reject that does not exist",
    input: String.raw`*filter
:A - [0:0]
-A A -j REJECT --reject-with nope
COMMIT
`,
  },
  {
    name: "addrtype without what it is about",
    input: String.raw`*nat
:A - [0:0]
:B - [0:0]
-A A -m addrtype -j RETURN
COMMIT
`,
  },
  {
    name: "mark without what it is about",
    input: String.raw`*nat
:A - [0:0]
:B - [0:0]
-A A -m mark -j RETURN
COMMIT
`,
  },
  {
    name: "statistic without what it is about",
    input: String.raw`*nat
:A - [0:0]
:B - [0:0]
-A A -m statistic --mode random -j RETURN
COMMIT
`,
  },
  {
    name: "conntrack without what it is about",
    input: String.raw`*nat
:A - [0:0]
:B - [0:0]
-A A -m conntrack -j RETURN
COMMIT
`,
  },
  {
    name: "comment without what it is about",
    input: String.raw`*nat
:A - [0:0]
:B - [0:0]
-A A -m comment -j RETURN
COMMIT
`,
  },
  {
    name: "a mark that is none",
    input: String.raw`*nat
:A - [0:0]
:B - [0:0]
-A A -m mark --mark zz -j RETURN
COMMIT
`,
  },
  {
    name: "DNAT without a destination",
    input: String.raw`*nat
:A - [0:0]
:B - [0:0]
-A A -j DNAT
COMMIT
`,
  },
  {
    name: "MARK without a mark",
    input: String.raw`*nat
:A - [0:0]
:B - [0:0]
-A A -j MARK
COMMIT
`,
  },
  {
    name: "a target without a name",
    input: String.raw`*nat
:A - [0:0]
:B - [0:0]
-A A -j
COMMIT
`,
  },
  {
    name: "a word that belongs nowhere",
    input: String.raw`*nat
:A - [0:0]
:B - [0:0]
-A A -d 1.2.3.4 x -j RETURN
COMMIT
`,
  },
  {
    name: "the hairpin rule",
    input: String.raw`*nat
:A - [0:0]
:B - [0:0]
-A POSTROUTING -j A
-A A -m conntrack --ctstate DNAT -m bpf --bytecode "6,32 0 0 12,7 0 0 0,32 0 0 16,29 0 1 0,6 0 0 1,6 0 0 0" -j MASQUERADE --random-fully
COMMIT
`,
  },
  {
    name: "commands one by one",
    then: [
      { tool: "iptables", args: ["--version"] },
      { tool: "iptables", args: ["-t", "nat", "-N", "A"] },
      { tool: "iptables", args: ["-t", "nat", "-N", "A"] },
      {
        tool: "iptables",
        args: ["-w", "5", "-t", "nat", "-A", "A", "-d", "1.2.3.4", "-p", "udp", "--dport", "53", "-j", "ACCEPT"],
      },
      {
        tool: "iptables",
        args: ["-w", "5", "-t", "nat", "-C", "A", "-d", "1.2.3.4", "-p", "udp", "--dport", "53", "-j", "ACCEPT"],
      },
      {
        tool: "iptables",
        args: ["-w", "5", "-t", "nat", "-C", "A", "-d", "1.2.3.5", "-p", "udp", "--dport", "53", "-j", "ACCEPT"],
      },
      {
        tool: "iptables",
        args: ["-w", "5", "-t", "nat", "-D", "A", "-d", "1.2.3.5", "-p", "udp", "--dport", "53", "-j", "ACCEPT"],
      },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-D", "A", "7"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-C", "A", "-j", "NOPE"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-A", "A", "-j", "NOPE"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-A", "NONE", "-j", "ACCEPT"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-I", "A", "9", "-j", "ACCEPT"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-I", "A", "-s", "10.0.0.0/8", "-j", "RETURN"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-X", "A"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-X", "NONE"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-F", "NONE"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-A", "OUTPUT", "-j", "A"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-F", "A"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-X", "A"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-S"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-S", "A"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-S", "OUTPUT"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-S", "NONE"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-L", "A", "-n"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-L", "NONE", "-n"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nope", "-L"] },
      { tool: "iptables", args: ["-w", "5", "-t", "nat", "-D", "OUTPUT", "-j", "A"] },
      { tool: "iptables", args: ["-w", "5", "--nope"] },
      { tool: "iptables", args: ["-w", "5", "-t", "mangle", "-S"] },
      { tool: "iptables", args: ["-w", "5", "-t", "filter", "-P", "FORWARD", "DROP"] },
      { tool: "iptables", args: [] },
    ],
  },
  {
    name: "how a restore may be asked for",
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
