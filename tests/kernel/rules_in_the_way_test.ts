/** Rules of other programs that drop packets of services are found in every form in which the kernel's tools show them. */
import assert from "node:assert/strict";
import { findRulesInTheWay } from "../../features/canary/worker/served_reach.ts";
import { createProcessRunner } from "../../backends/tools/mod.ts";
import { type Lab, NETWORK } from "../../demo/lab.ts";
import { createDropJudge } from "../../features/canary/drops.ts";
import { systemClock } from "../../platform/clock.ts";
import { startRestricted } from "./as_executable.ts";
import { inLab } from "./in_lab.ts";

const NODE_PORT = 30080, POD = NETWORK.pods["pod-1"].IPv4;
const SERVED = { prefixes: ["10.244.1.0/24", "10.96.0.10/32"], ports: [80, 8080], nodePorts: [NODE_PORT] };

/** A rule that drops, the commands that add it, and whether packets of a client match it. */
interface Case {
  readonly add: readonly string[];
  readonly matches: "node port" | "pod" | "nothing of services";
  /** The chain and the rule as the problem names them; undefined if it must not. */
  readonly named: RegExp | undefined;
}

const nft = (hook: string, priority: number, rule: string): readonly string[] => [
  "nft add table ip foreign",
  `nft 'add chain ip foreign c { type filter hook ${hook} priority ${priority}; }'`,
  `nft add rule ip foreign c ${rule}`,
];
const OF_NFT = /^chain c of table ip foreign has the rule “.* ?(drop|reject)/;

const CASES: readonly Case[] = [
  { add: nft("prerouting", -300, `tcp dport ${NODE_PORT} drop`), matches: "node port", named: OF_NFT },
  { add: nft("prerouting", -300, `tcp dport ${NODE_PORT} counter drop`), matches: "node port", named: OF_NFT },
  { add: nft("prerouting", -300, "tcp dport { 22, 30000-32767 } counter drop"), matches: "node port", named: OF_NFT },
  { add: nft("forward", 0, "ip daddr 10.244.0.0/16 counter reject"), matches: "pod", named: OF_NFT },
  { add: nft("forward", 0, "ip daddr { 10.96.0.0/12, 10.244.0.0/16 } drop"), matches: "pod", named: OF_NFT },
  { add: nft("forward", 0, "ip daddr 10.244.0.0/16 tcp dport 22 counter drop"), matches: "pod", named: undefined },
  {
    add: nft("forward", 0, "ip daddr 10.244.0.0/16 ct state new limit rate over 1/hour drop"),
    matches: "pod",
    named: undefined,
  },
  { add: nft("forward", 0, "ip daddr != 10.244.0.0/16 drop"), matches: "nothing of services", named: undefined },
  {
    add: nft("prerouting", -300, "ip daddr 192.0.2.10 tcp dport 22 counter drop"),
    matches: "nothing of services",
    named: undefined,
  },
  ...["iptables-nft", "iptables-legacy"].flatMap((tool): readonly Case[] => [
    {
      add: [`${tool} -t raw -A PREROUTING -p tcp --dport ${NODE_PORT} -j DROP`],
      matches: "node port",
      named: /^chain PREROUTING of .*table.* raw has the rule “.*30080.*(?:DROP|drop)/,
    },
    {
      add: [`${tool} -t raw -A PREROUTING -p tcp -m multiport --dports 22,30000:32767 -j DROP`],
      matches: "node port",
      named: /^chain PREROUTING of .*table.* raw has the rule “.*30000/,
    },
    {
      add: [`${tool} -A FORWARD -d 10.244.0.0/16 -j REJECT`],
      matches: "pod",
      named: /^chain FORWARD of .*table.* filter has the rule “.*10\.244\.0\.0\/16/,
    },
    {
      add: [`${tool} -A FORWARD ! -d 10.244.0.0/16 -p tcp --dport ${NODE_PORT} -j DROP`],
      matches: "nothing of services",
      named: undefined,
    },
  ]),
];

async function knock(lab: Lab, matches: Case["matches"]): Promise<void> {
  const [host, port] = matches === "pod" ? [POD, NETWORK.podPort] : [NETWORK.node.IPv4, NODE_PORT];
  const script = `exec 3<>/dev/tcp/${host}/${port}`;
  await lab.run("outside", ["timeout", "0.3", "bash", "-c", script]).catch(() => {});
}

Deno.test("rules of nft, iptables-nft and iptables-legacy that drop packets of services are named, others are not", () =>
  inLab(async (lab) => {
    const wrapper = await Deno.makeTempDir();
    try {
      const search = Deno.env.get("PATH");
      for (const tool of ["nft", "iptables-save", "iptables-legacy-save"]) {
        await Deno.writeTextFile(
          `${wrapper}/${tool}`,
          `#!/bin/sh\nPATH=${search} exec ip netns exec node ${tool} "$@"\n`,
          {
            mode: 0o755,
          },
        );
      }
      const path = `${wrapper}:${search}`;
      const runner = createProcessRunner({ clock: systemClock, path, signal: new AbortController().signal });
      const names = (rules: readonly string[], { add, named }: Case) => {
        const text = add.at(-1)!;
        if (named === undefined) assert.deepEqual(rules, [], text);
        else {
          assert.equal(rules.length, 1, `${text}: ${rules.join("\n")}`);
          assert.match(rules[0]!, named);
        }
      };
      for (const one of CASES) {
        const judge = createDropJudge();
        const look = async (atMs: number) => judge(await findRulesInTheWay({ runner, family: "IPv4" }, SERVED), atMs);
        await look(0);
        for (const command of one.add) await lab.run("node", ["sh", "-ec", command]);
        const isCounted = /counter|iptables/.test(one.add.at(-1)!);
        if (isCounted) assert.deepEqual(await look(60_000), [], `${one.add.at(-1)}: nothing was dropped yet`);
        await knock(lab, one.matches);
        names(await look(120_000), one);
        names(await look(180_000), one);
        if (isCounted) assert.deepEqual(await look(1_000_000), [], `${one.add.at(-1)}: it dropped nothing for long`);
        for (const command of ["nft flush ruleset", "iptables-legacy -F; iptables-legacy -t raw -F"]) {
          await lab.run("node", ["sh", "-c", command]);
        }
        assert.deepEqual(await look(1_060_000), []);
      }
    } finally {
      await Deno.remove(wrapper, { recursive: true });
    }
  }));

Deno.test("a green canary reports a rule that drops packets to pods, and does not turn red", () =>
  inLab(async (lab) => {
    for (const command of nft("forward", 0, "ip daddr 10.244.0.0/16 drop")) {
      await lab.run("node", ["sh", "-ec", command]);
    }
    const flags = [
      "--proxy-mode",
      "nftables",
      "--canary",
      "--metrics-bind-address",
      "",
      "--conntrack-max-per-core",
      "0",
    ];
    const sluice = await startRestricted(lab, { flags });
    try {
      const log = await sluice.waitFor((log) => /code=packets-dropped-by-others/.test(log));
      assert.match(
        log,
        /WARN .*packets-dropped-by-others subject=IPv4 .*chain c of table ip foreign .*10\.244\.0\.0\/16 drop”/,
      );
      assert.doesNotMatch(log, /packets-not-flowing/);
    } finally {
      await sluice.stop();
    }
  }));
