/** The whole Sluice with the services of deploy/example/, tested with real connections. */
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import type { Attempt } from "../../demo/agent.ts";
import { type Lab, type Namespace, NETWORK } from "../../demo/lab.ts";
import { program, type RunningSluice, startSluice } from "../../demo/sluice.ts";
import { systemClock } from "../../platform/clock.ts";
import { waitFor } from "../chaos/wait.ts";
import { inLab } from "./in_lab.ts";

type Target = Omit<Attempt, "timeoutMs">;

const TCP = { protocol: "tcp", port: 80 } as const;
const WEB = { ...TCP, address: "10.96.0.10" };
const WEB_IPV6 = { ...TCP, address: "fd00:10:96::a" };
const SHOP_NODE_PORT = { ...TCP, address: NETWORK.node.IPv4, port: 30080 };
const EDGE = { ...TCP, address: "198.51.100.20" };
const SESSIONS = { ...TCP, address: "10.96.0.40" };
const EMPTY = { ...TCP, address: "10.96.0.50" };
const NAMES = { protocol: "udp", address: "10.96.0.53", port: 53 } as const;

/** With three endpoints at random, the chance that one is missed is about 10^-10. */
const CONNECTIONS = 60;
const CHANGE_WITHIN_MS = 20_000;

async function withSluice(test: (lab: Lab, sluice: RunningSluice, manifests: string) => Promise<void>): Promise<void> {
  const manifests = await Deno.makeTempDir({ dir: "/run" });
  const example = new URL("../../deploy/example/", import.meta.url).pathname;
  for (const { name } of Deno.readDirSync(example)) Deno.copyFileSync(example + name, `${manifests}/${name}`);
  await inLab(async (lab) => {
    const sluice = startSluice(lab, manifests, systemClock);
    try {
      await sluice.ready();
      await test(lab, sluice, manifests);
    } finally {
      await sluice.stop();
    }
  });
}

/** The sorted set of answering pods, and the client addresses they see. */
async function answers(lab: Lab, from: Namespace, target: Target): Promise<{ by: string[]; sources: string[] }> {
  const by = new Set<string>(), sources = new Set<string>();
  for (let i = 0; i < CONNECTIONS; i++) {
    const outcome = await lab.connect(from, target);
    by.add(outcome.kind === "answered" ? outcome.by : outcome.kind);
    if (outcome.kind === "answered") sources.add(outcome.sourceSeen);
  }
  return { by: [...by].sort(), sources: [...sources].sort() };
}

/** Waits until exactly these pods answer. */
async function waitForAnswers(lab: Lab, from: Namespace, target: Target, expected: readonly string[]): Promise<void> {
  let found: readonly string[] = [];
  const isExpected = async () => isDeepStrictEqual(found = (await answers(lab, from, target)).by, expected);
  await waitFor("the answers", CHANGE_WITHIN_MS, isExpected, 50).catch(() => assert.deepEqual(found, expected));
}

/** Changes a manifest atomically. */
function rewrite(path: string, change: (text: string) => string): void {
  Deno.writeTextFileSync(`${path}.new`, change(Deno.readTextFileSync(path)));
  Deno.renameSync(`${path}.new`, path);
}

/** Packet counters of the node's rules, by table, chain and rule. */
async function packetsByRule(lab: Lab): Promise<Map<string, number>> {
  const packets = new Map<string, number>();
  for (const tool of ["iptables-save", "ip6tables-save"]) {
    let table = "";
    for (const line of (await lab.run("node", [tool, "-c"])).split("\n")) {
      if (line.startsWith("*")) table = line;
      const rule = /^\[(\d+):\d+\] (-A .*)$/.exec(line);
      if (rule) packets.set(`${tool} ${table} ${rule[2]}`, Number(rule[1]));
    }
  }
  return packets;
}

Deno.test("connections reach the endpoints in the manifests", () =>
  withSluice(async (lab) => {
    assert.deepEqual((await answers(lab, "pod-1", WEB)).by, ["pod-1", "pod-2", "pod-3"]);
    assert.deepEqual((await answers(lab, "node", WEB_IPV6)).by, ["pod-1", "pod-2", "pod-3"]);
    assert.deepEqual((await answers(lab, "outside", SHOP_NODE_PORT)).by, ["pod-2", "pod-3"]);
    assert.deepEqual(await answers(lab, "outside", EDGE), { by: ["pod-1"], sources: [NETWORK.client.IPv4] });
    assert.deepEqual((await answers(lab, "outside", EMPTY)).by, ["refused"]);
    assert.equal((await answers(lab, "pod-2", SESSIONS)).by.length, 1);
    assert.deepEqual(await answers(lab, "pod-1", NAMES), { by: ["pod-2"], sources: [NETWORK.pods["pod-1"].IPv4] });
  }));

Deno.test("a removed endpoint gets no connections, an added one gets its share, and other services are unaffected", () =>
  withSluice(async (lab, _sluice, manifests) => {
    let removed = "";
    rewrite(`${manifests}/web.yaml`, (text) =>
      text.split("\n").filter((line) => {
        const isRemoved = line.includes(`[${NETWORK.pods["pod-2"].IPv4}]`);
        if (isRemoved) removed = line;
        return !isRemoved;
      }).join("\n"));
    await waitForAnswers(lab, "pod-1", WEB, ["pod-1", "pod-3"]);
    assert.deepEqual((await answers(lab, "pod-1", WEB_IPV6)).by, ["pod-1", "pod-2", "pod-3"]);

    rewrite(`${manifests}/web.yaml`, (text) => text.replace(/^endpoints:$/m, `endpoints:\n${removed}`));
    await waitForAnswers(lab, "pod-1", WEB, ["pod-1", "pod-2", "pod-3"]);
  }));

Deno.test("an invalid manifest is reported with its line, and its last valid version stays in effect", () =>
  withSluice(async (lab, sluice, manifests) => {
    rewrite(`${manifests}/shop.yaml`, (text) => text.replace("spec:", "spec: {"));
    rewrite(`${manifests}/edge.yaml`, (text) => text.replace("[10.244.1.11]", "[10.244.1.12]"));
    await waitForAnswers(lab, "outside", EDGE, ["pod-2"]);
    assert.deepEqual((await answers(lab, "outside", SHOP_NODE_PORT)).by, ["pod-2", "pod-3"]);
    assert.match(sluice.log(), /shop\.yaml:\d+/);
  }));

Deno.test("the rules survive a stop, and a restart does not rewrite correct rules", () =>
  withSluice(async (lab, sluice, manifests) => {
    for (const target of [WEB, WEB_IPV6, SESSIONS, NAMES]) await answers(lab, "pod-1", target);
    await sluice.stop();
    assert.deepEqual((await answers(lab, "outside", SHOP_NODE_PORT)).by, ["pod-2", "pod-3"]);

    const before = await packetsByRule(lab);
    const restarted = startSluice(lab, manifests, systemClock);
    try {
      // Once a later change is in effect, the first sync with the kernel has finished.
      await restarted.ready();
      rewrite(`${manifests}/edge.yaml`, (text) => text.replace("[10.244.1.11]", "[10.244.1.12]"));
      await waitForAnswers(lab, "outside", EDGE, ["pod-2"]);
      const after = await packetsByRule(lab);
      // A rewritten rule counts from zero; only rules of the changed service may be rewritten.
      const rewritten = [...before].filter(([rule, packets]) =>
        packets > (after.get(rule) ?? 0) && !rule.includes("edge")
      );
      assert.deepEqual(rewritten, []);
      assert.ok([...before.values()].filter((packets) => packets > 0).length > 10);
    } finally {
      await restarted.stop();
    }
  }));

Deno.test("pods and outside clients cannot reach the node's 127.0.0.1, but node ports work there", async () => {
  const secret = { protocol: "udp", address: "127.0.0.1", port: 5353 } as const;
  await inLab(async (lab) => {
    const agent = new URL("../../demo/agent.ts", import.meta.url).pathname;
    const serve = ["run", "--quiet", "--cached-only", "--unstable-net", "--allow-net", agent];
    const server = lab.start("node", [Deno.execPath(), ...serve, "secret", secret.address, String(secret.port)], {
      stdin: "piped",
      stdout: "piped",
    });
    await server.stdout.getReader().read();
    // In the attacker's namespace, 127.0.0.1 is routed to the node.
    for (const [namespace, gateway] of [["pod-1", NETWORK.podGateway.IPv4], ["outside", NETWORK.node.IPv4]] as const) {
      await lab.run(namespace, ["sysctl", "-qw", "net.ipv4.conf.all.route_localnet=1"]);
      await lab.run(namespace, ["ip", "address", "delete", "127.0.0.1/8", "dev", "lo"]);
      const source = namespace === "pod-1" ? NETWORK.pods["pod-1"].IPv4 : NETWORK.client.IPv4;
      const route = ["via", gateway, "dev", "eth0", "src", source];
      await lab.run(namespace, ["ip", "route", "add", "127.0.0.1/32", ...route, "onlink"]);
    }
    const attack = (from: Namespace) => lab.connect(from, { ...secret, timeoutMs: 500 });
    await lab.run("node", ["sysctl", "-qw", "net.ipv4.conf.all.route_localnet=1"]);
    for (const from of ["pod-1", "outside"] as const) assert.equal((await attack(from)).kind, "answered", from);
    await lab.run("node", ["conntrack", "-F"]);
    await lab.run("node", ["sysctl", "-qw", "net.ipv4.conf.all.route_localnet=0"]);

    const sluice = startSluice(lab, new URL("../../deploy/example/", import.meta.url).pathname, systemClock);
    try {
      await sluice.ready();
      await waitForAnswers(lab, "node", { ...SHOP_NODE_PORT, address: "127.0.0.1" }, ["pod-2", "pod-3"]);
      assert.match(await lab.run("node", ["sysctl", "net.ipv4.conf.all.route_localnet"]), /= 1/);
      for (const from of ["pod-1", "outside"] as const) assert.deepEqual(await attack(from), { kind: "silence" }, from);
      assert.equal((await attack("node")).kind, "answered");
      await sluice.stop();
      // The cleanup resets the setting if Sluice has set it. If another program has, the rule stays.
      const initOnly = [...program(), "--init-only", "--hostname-override", "n", "--conntrack-max-per-core", "0"];
      for (const isOurs of [true, false]) {
        if (!isOurs) {
          await lab.run("node", ["sysctl", "-qw", "net.ipv4.conf.all.route_localnet=1"]);
          await lab.run("node", initOnly);
        }
        await lab.run("node", [...program(), "--cleanup"]);
        const routed = await lab.run("node", ["sysctl", "-n", "net.ipv4.conf.all.route_localnet"]);
        assert.equal(routed.trim(), isOurs ? "0" : "1");
        assert.equal((await lab.run("node", ["iptables-save"])).includes("KUBE-"), !isOurs);
        for (const from of ["pod-1", "outside"] as const) {
          assert.deepEqual(await attack(from), { kind: "silence" }, from);
        }
      }
    } finally {
      await sluice.stop();
      await server.stdin.close();
      await server.status;
    }
  });
});

/** The value of a metric without labels. */
async function metric(lab: Lab, name: string): Promise<number> {
  const ask = `console.log(await (await fetch("http://127.0.0.1:10249/metrics")).text())`;
  const text = await lab.run("node", [Deno.execPath(), "eval", "--quiet", ask]);
  return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1]);
}

Deno.test("connections to node ports at localhost are counted, those to other ports are not", () =>
  withSluice(async (lab) => {
    const name = "kubeproxy_iptables_localhost_nodeports_accepted_packets_total";
    assert.equal(await metric(lab, name), 0);
    for (const port of [30080, 30080, 30080, 30999]) {
      await lab.connect("node", { protocol: "tcp", address: "127.0.0.1", port, timeoutMs: 2_000 });
    }
    assert.equal(await metric(lab, name), 3);
  }));

Deno.test("--cleanup removes all rules of Sluice and no others", () =>
  withSluice(async (lab, sluice) => {
    const others = ["-t", "nat", "-A", "POSTROUTING", "-s", "172.16.0.0/12", "-j", "MASQUERADE"];
    await lab.run("node", ["iptables", "-w", ...others]);
    await sluice.stop();
    await lab.run("node", [...program(), "--cleanup"]);
    const left = (await lab.run("node", ["iptables-save"])) + (await lab.run("node", ["ip6tables-save"]));
    assert.deepEqual(left.split("\n").filter((line) => line.includes("KUBE-")), []);
    assert.match(left, /-A POSTROUTING -s 172\.16\.0\.0\/12 -j MASQUERADE/);
    assert.deepEqual(await lab.connect("pod-1", { ...WEB, timeoutMs: 300 }), { kind: "silence" });
  }));
