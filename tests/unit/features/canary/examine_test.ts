import assert from "node:assert/strict";
import fc from "fast-check";
import { examinePath } from "../../../../features/canary/worker/examine.ts";
import { findRulesInTheWay } from "../../../../features/canary/worker/served_reach.ts";
import { foreignChains } from "../../../../backends/foreign/mod.ts";
import { type Runner, ToolMissingError } from "../../../../backends/tools/runner.ts";

/** A runner whose tools print these texts, by their command lines; others print nothing. Missing tools are listed. */
function printing(outputs: Readonly<Record<string, string>>, missing: readonly string[] = []): Runner {
  return {
    run({ tool, args, onLine }) {
      if (missing.includes(tool)) return Promise.reject(new ToolMissingError(tool));
      const stdout = outputs[[tool, ...args].join(" ")] ?? outputs[tool] ?? "";
      if (onLine) stdout.split("\n").forEach((line) => onLine(line));
      return Promise.resolve({ exitCode: 0, stdout: onLine ? "" : stdout, stderr: "" });
    },
  };
}

const sysctls = (values: Readonly<Record<string, number>>) =>
  Object.entries(values).map(([name, value]) => `${name} = ${value}\n`).join("");

const HEALTHY = {
  "net.ipv4.ip_forward": 1,
  "net.netfilter.nf_conntrack_count": 12,
  "net.netfilter.nf_conntrack_max": 262144,
};

Deno.test("a healthy node has no findings, also with kernel settings that do not exist", async () => {
  const nodes: readonly Readonly<Record<string, number>>[] = [HEALTHY, { "net.ipv4.ip_forward": 1 }, {}];
  for (const values of nodes) {
    const runner = printing({ sysctl: sysctls(values) });
    for (const what of ["settings", "everything"] as const) {
      assert.deepEqual(await examinePath({ runner, family: "IPv4" }, what), []);
    }
  }
});

Deno.test("forwarding is off only if no interface forwards", async () => {
  const find = (interfaces: string) =>
    examinePath({
      runner: printing({
        "sysctl -a -r ^net\\.ipv4\\.conf\\..*\\.forwarding$": interfaces,
        sysctl: sysctls({ ...HEALTHY, "net.ipv4.ip_forward": 0 }),
      }),
      family: "IPv4",
    }, "settings");
  const none = sysctls({
    "net.ipv4.conf.all.forwarding": 0,
    "net.ipv4.conf.lo.forwarding": 1,
    "net.ipv4.conf.eth0.forwarding": 0,
  });
  assert.deepEqual(await find(none), [{
    cause: "forwarding-off",
    detail: "net.ipv4.ip_forward is 0, so this node forwards no packets to or from pods",
    certain: true,
  }]);
  assert.deepEqual(await find(none + sysctls({ "net.ipv4.conf.cni0.forwarding": 1 })), []);
});

Deno.test("IPv6 forwarding is judged by its own setting", async () => {
  const runner = printing({ sysctl: sysctls({ "net.ipv6.conf.all.forwarding": 0 }) });
  const findings = await examinePath({ runner, family: "IPv6" }, "settings");
  assert.deepEqual(findings.map(({ cause }) => cause), ["forwarding-off"]);
});

Deno.test("a full connection tracking table is named, and strict reverse path filtering only with everything", async () => {
  const values = { ...HEALTHY, "net.netfilter.nf_conntrack_count": 262143, "net.ipv4.conf.all.rp_filter": 1 };
  const runner = printing({
    "sysctl net.ipv4.ip_forward net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max": sysctls(values)
      .replace(/net\.ipv4\.conf.*\n/, ""),
    sysctl: sysctls(values),
  });
  const causes = async (what: "settings" | "everything") =>
    (await examinePath({ runner, family: "IPv4" }, what)).map(({ cause }) => cause);
  assert.deepEqual(await causes("settings"), ["table-full"]);
  assert.deepEqual(await causes("everything"), ["table-full", "rp-filter"]);
});

/** `nft list chains` and `nft list table` of nft 1.0.6. */
const NFT = {
  "nft list chains": `table ip sluice {
	chain filter-input {
		type filter hook input priority -110; policy accept;
	}
	chain drops {
	}
}
table ip filter {
	chain INPUT {
		type filter hook input priority filter; policy drop;
	}
	chain FORWARD {
		type filter hook forward priority filter; policy accept;
	}
	chain KUBE-FORWARD {
	}
}
table inet guard {
	chain out {
		type filter hook output priority filter; policy accept;
	}
	chain deny {
	}
}
table ip6 other {
	chain in {
		type filter hook input priority filter; policy drop;
	}
}
table inet unused {
	chain no-hook {
	}
}
`,
  "nft -t list table ip filter": `table ip filter {
	chain INPUT {
		type filter hook input priority filter; policy drop;
		ct state established,related counter packets 9 bytes 900 accept
	}

	chain FORWARD {
		type filter hook forward priority filter; policy accept;
		counter packets 1 bytes 60 jump KUBE-FORWARD
		ct state invalid counter packets 3 bytes 160 drop
		tcp dport 22 counter packets 0 bytes 0 drop
	}

	chain KUBE-FORWARD {
		counter packets 2 bytes 160 drop
	}
}
`,
  "nft -t list table inet guard": `table inet guard {
	set blocked {
		type ipv4_addr
	}

	chain out {
		type filter hook output priority filter; policy accept;
		jump deny
	}

	chain deny {
		ip6 daddr 2001:db8::1 drop
		ip daddr @blocked counter packets 5 bytes 300 drop comment "drop it"
		reject with tcp reset
	}
}
`,
};

Deno.test("chains of other programs that drop are suspects: not Sluice's, the other family's or rules never matched", async () => {
  const runner = printing({ ...NFT, sysctl: sysctls(HEALTHY) });
  assert.deepEqual(
    await examinePath({ runner, family: "IPv4" }, "everything"),
    [
      "chain deny of table inet guard drops all packets that reach its rule “reject with tcp reset”",
      "chain deny of table inet guard has the rule “ip daddr @blocked drop”",
      "chain INPUT of table ip filter drops what its rules do not accept",
    ].map((detail) => ({ cause: "foreign-chain", detail, certain: false })),
  );
});

Deno.test("of several causes, those that explain most are named first", async () => {
  const { "net.ipv4.ip_forward": _, ...others } = HEALTHY;
  const values = { "net.ipv4.conf.all.rp_filter": 1, ...others, "net.netfilter.nf_conntrack_count": 262144 };
  const runner = printing({
    ...NFT,
    "sysctl -a -r ^net\\.ipv4\\.conf\\..*\\.forwarding$": "",
    sysctl: sysctls({ ...values, "net.ipv4.ip_forward": 0 }),
  });
  const findings = await examinePath({ runner, family: "IPv4" }, "everything");
  assert.deepEqual([...new Set(findings.map(({ cause }) => cause))], [
    ...["forwarding-off", "table-full", "foreign-chain", "rp-filter"],
  ]);
});

Deno.test("a chain that drops everything forwarded is certain to stop the pods' packets", async () => {
  const table = (body: string, flags = "") => ({
    "nft list chains":
      "table inet f {\n\tchain fw {\n\t\ttype filter hook forward priority filter; policy drop;\n\t}\n}\n",
    "nft -t list table inet f":
      `table inet f {\n${flags}\tchain fw {\n\t\ttype filter hook forward priority filter; ${body}\n\t}\n}\n`,
  });
  const certain = async (body: string, flags?: string) => {
    const runner = printing({ ...table(body, flags), sysctl: sysctls(HEALTHY) });
    return (await examinePath({ runner, family: "IPv4" }, "everything")).map((finding) => finding.certain);
  };
  assert.deepEqual(await certain("policy drop;"), [true]);
  assert.deepEqual(await certain("policy accept;\n\t\tcounter packets 7 bytes 8 drop"), [true]);
  assert.deepEqual(await certain('policy drop;\n\t\tiifname "cni0" accept'), [false]);
  assert.deepEqual(await certain('policy accept;\n\t\tiifname "cni0" accept\n\t\tdrop'), [false]);
  assert.deepEqual(await certain("policy accept;\n\t\tmeta nfproto ipv6 drop"), []);
  assert.deepEqual(await certain("policy drop;", "\tflags dormant\n\n"), []);
  const withoutTraffic = "counter packets 0 bytes 0 drop";
  assert.deepEqual(await certain(`policy accept;\n\t\t${withoutTraffic}`), [true]);
  assert.deepEqual(await certain(`policy accept;\n\t\tiifname "cni0" accept\n\t\t${withoutTraffic}`), []);
});

Deno.test("the tables of services are not listed, and of the others sixty-four", async () => {
  const own = ["sluice", "sluice-connections", "sluice-resets", "kube-proxy"];
  const names = [...own, ...Array.from({ length: 70 }, (_, i) => `f${i}`)];
  const listed: string[] = [];
  const runner = printing({
    "nft list chains": names.map((name) =>
      `table ip ${name} {\n\tchain c {\n\t\ttype filter hook forward priority filter; policy accept;\n\t}\n}\n`
    ).join(""),
  });
  await foreignChains({
    run(call) {
      if (call.args[0] === "-t") listed.push(call.args.at(-1)!);
      return runner.run(call);
    },
  }, "IPv4");
  assert.deepEqual(listed, names.slice(own.length, own.length + 64));
});

Deno.test("rules are read for what they drop and accept, as nft prints them and as iptables-save does", async () => {
  const read = async (rules: readonly string[], hook = "forward") => {
    const head = `table ip f {\n\tchain c {\n\t\ttype filter hook ${hook} priority filter; policy accept;\n`;
    const runner = printing({
      "nft list chains": `${head}\t}\n}\n`,
      "nft -t list table ip f": `${head}${rules.map((rule) => `\t\t${rule}\n`).join("")}\t}\n}\n`,
    });
    const [chain] = await foreignChains(runner, "IPv4");
    return [chain!.dropping.length > 0, chain!.acceptsTranslated];
  };
  const saved = async (rules: readonly string[]) => {
    const save = ["*filter", ":CNI - [0:0]", ...rules.map((rule) => `[9:99] -A CNI ${rule}`), "COMMIT"].join("\n");
    const [chain] = await foreignChains(printing({ "iptables-save": save }, ["nft", "iptables-legacy-save"]), "IPv4");
    return [chain!.dropping.length > 0, chain!.acceptsTranslated];
  };
  assert.deepEqual(await read(["ct state invalid drop"]), [false, false]);
  assert.deepEqual(await read(["ct state related,invalid drop"]), [false, false]);
  assert.deepEqual(await read(["ct state new drop"]), [true, false]);
  assert.deepEqual(await read(["accept"]), [false, true], "a chain with a hook sees every packet");
  assert.deepEqual(await read(["ct status dnat accept"]), [false, true]);
  assert.deepEqual(await read(["tcp dport 80 accept"]), [false, false]);
  assert.deepEqual(await saved(["-m conntrack --ctstate INVALID -j DROP"]), [false, false]);
  assert.deepEqual(await saved(["-m conntrack --ctstate RELATED,INVALID -j DROP"]), [false, false]);
  assert.deepEqual(await saved(["-j ACCEPT"]), [false, false], "only some packets may reach a chain without a hook");
  assert.deepEqual(await saved(["-d 10.244.0.0/16 -j ACCEPT"]), [false, true]);
});

Deno.test("the chains of each table of iptables-save are its own, and IPv6 has its own tool", async () => {
  const save =
    "*nat\n:X - [0:0]\n[1:1] -A X -p tcp -j DROP\nCOMMIT\n*filter\n:FORWARD ACCEPT [0:0]\n[1:1] -A X -j DROP\nCOMMIT\n";
  const missing = ["nft", "iptables-save", "iptables-legacy-save", "ip6tables-legacy-save"];
  const chains = await foreignChains(printing({ "ip6tables-save": save }, missing), "IPv6");
  assert.deepEqual(chains.map(({ table, name, dropping }) => [table, name, dropping.length]), [
    ["ip6tables table nat", "X", 1],
    ["ip6tables table filter", "FORWARD", 0],
  ]);
});

const SAVE = `# Generated by iptables-save
*filter
:INPUT ACCEPT [10:600]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [8:500]
:KUBE-FIREWALL - [0:0]
[10:600] -A INPUT -j KUBE-FIREWALL
[4:240] -A OUTPUT -p tcp -m tcp --dport 10260 -j DROP
[0:0] -A OUTPUT -p udp -j DROP
[3:240] -A KUBE-FIREWALL -j DROP
COMMIT
`;

Deno.test("without nft, and for iptables-legacy, iptables-save shows the chains", async () => {
  const expected = [
    "chain OUTPUT of iptables table filter has the rule “-p tcp -m tcp --dport 10260 -j DROP”",
    "chain FORWARD of iptables table filter drops every packet",
  ];
  const sysctl = sysctls(HEALTHY);
  const runners = [
    printing({ sysctl, "iptables-save": SAVE }, ["nft", "iptables-legacy-save"]),
    printing({ sysctl, "iptables-legacy-save": SAVE }, []),
    printing({ sysctl, "iptables-save": SAVE, "iptables-legacy-save": SAVE }, ["nft"]),
  ];
  for (const runner of runners) {
    const findings = await examinePath({ runner, family: "IPv4" }, "everything");
    assert.deepEqual(findings.map(({ detail }) => detail).sort(), [...expected].sort());
    assert.deepEqual(findings.map(({ certain }) => certain), [true, false]);
  }
});

Deno.test("a node without any tool for chains is examined all the same", async () => {
  const runner = printing({ sysctl: sysctls(HEALTHY) }, ["nft", "iptables-save", "iptables-legacy-save"]);
  assert.deepEqual(await examinePath({ runner, family: "IPv4" }, "everything"), []);
});

/** The rules in the way, by the listing of a chain of nft at this hook. */
async function inTheWay(
  hook: string,
  rules: readonly string[],
  family: "IPv4" | "IPv6" = "IPv4",
  prefixes: readonly string[] = ["10.244.1.0/24", "10.96.0.10/32", "10.96.0.11/32", "fd00:10:244::/64"],
) {
  const head = `table inet f {\n\tchain c {\n\t\ttype filter hook ${hook} priority 0; policy accept;\n`;
  const end = "\t}\n}\n", body = rules.map((rule) => `\t\t${rule}\n`).join("");
  const runner = printing({ "nft list chains": head + end, "nft -t list table inet f": head + body + end });
  const served = { prefixes, ports: [80, 8080], nodePorts: [30080] };
  const found = await findRulesInTheWay({ runner, family }, served);
  return found.map(({ detail, packets }) => [/“(.*)”/.exec(detail)?.[1], packets] as const);
}

Deno.test("a rule is in the way if all of its addresses and ports are served", async () => {
  const inWay = [
    "ip daddr 10.244.0.0/16 drop",
    "ip daddr 10.96.0.0-10.96.0.10 drop",
    "ip daddr { 192.0.2.0/24, 10.96.0.11 } tcp dport { 22, 80 } reject with tcp reset",
    "tcp dport 30000-32767 drop",
    "meta l4proto tcp th dport 30080 drop",
    "ip saddr 10.244.1.0/28 ip daddr 0.0.0.0/0 drop",
  ];
  const others = [
    "ip daddr 10.245.0.0/16 drop",
    "ip daddr 10.96.0.0-10.96.0.9 drop",
    "ip daddr != 10.244.0.0/16 drop",
    "ip daddr @blocked drop",
    "ip daddr 10.244.0.0/16 tcp dport 22 drop",
    "ip saddr 10.244.0.0/16 ip daddr 169.254.169.254 drop",
    "tcp dport { 80, 8080 } drop",
    "ip saddr 203.0.113.0/24 tcp dport 30080 drop",
    'iifname "eth0" drop',
    "drop",
  ];
  assert.deepEqual(await inTheWay("forward", [...inWay, ...others]), inWay.map((rule) => [rule, undefined]));
  const counted = [...inWay, ...others].map((rule) => rule.replace(/drop|reject/, "counter packets 5 bytes 300 $&"));
  assert.deepEqual(await inTheWay("forward", counted), inWay.map((rule) => [rule, 5]));
  assert.deepEqual(await inTheWay("input", inWay), []);
  assert.deepEqual(await inTheWay("forward", ["ip6 daddr fd00:10::/32 drop", ...inWay], "IPv6"), [
    ["ip6 daddr fd00:10::/32 drop", undefined],
    ...inWay.slice(3, 5).map((rule) => [rule, undefined]),
  ]);
});

Deno.test("a rule with another condition is in the way only if it counts packets", async () => {
  const rules = ['iifname "eth0" ip daddr 10.244.0.0/16', "tcp dport 30080 limit rate over 100/second"];
  assert.deepEqual(await inTheWay("prerouting", rules.map((rule) => `${rule} drop`)), []);
  const counted = rules.map((rule) => `${rule} counter packets 2 bytes 90 drop`);
  assert.deepEqual(await inTheWay("prerouting", counted), rules.map((rule) => [`${rule} drop`, 2]));
});

Deno.test("a rule is in the way if any served prefix overlaps its own, whatever the order and overlaps of those", async () => {
  const prefixes = fc.record({ address: fc.nat(0xff), length: fc.integer({ min: 24, max: 32 }) }).map((one) => {
    const first = one.address & -(2 ** (32 - one.length));
    return { text: `10.0.0.${first}/${one.length}`, first, last: first + 2 ** (32 - one.length) - 1 };
  });
  await fc.assert(
    fc.asyncProperty(fc.array(prefixes, { minLength: 1, maxLength: 8 }), prefixes, async (served, rule) => {
      const overlaps = served.some(({ first, last }) => first <= rule.last && rule.first <= last);
      const found = await inTheWay("forward", [`ip daddr ${rule.text} drop`], "IPv4", served.map(({ text }) => text));
      assert.equal(found.length === 1, overlaps);
    }),
  );
});
