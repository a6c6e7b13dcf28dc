import assert from "node:assert/strict";
import { planDrain } from "../../../../backends/ipvs/leftovers.ts";
import type { ListedServer } from "../../../../backends/ipvs/virtual_servers.ts";
import { loadBackend } from "../../../../backends/registry.ts";
import type { FamilyDelta } from "../../../../core/model/mod.ts";
import { createLogger } from "../../../../platform/log.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { createIpvsHost, IPVS_SETTINGS, ipvsModeSettings } from "./host.ts";

const WEB = "-t 10.96.0.10:80", DNS = "-u 10.96.0.11:53", NODE_PORT = "-t 192.168.1.10:30080";
const FIRST = "10.244.1.5:8080", SECOND = "10.244.2.5:8080";

function server(...realServers: string[]): ListedServer {
  return { definition: "-s rr", realServers, weights: realServers.map(() => 1), terminating: new Set() };
}

Deno.test("virtual servers with connections get no new ones, all others are deleted", () => {
  const own = new Map([[WEB, server(FIRST, SECOND)], [DNS, server(FIRST)], [NODE_PORT, server(FIRST)]]);
  const counts = new Map([[WEB, new Map([[FIRST, 2], [SECOND, 0]])], [DNS, new Map([[FIRST, 0]])]]);
  assert.deepEqual(planDrain(own, counts, false), {
    operations: [
      { does: "update-real", server: WEB, real: FIRST, weight: 0 },
      { does: "update-real", server: WEB, real: SECOND, weight: 0 },
      { does: "delete", server: DNS },
      { does: "delete", server: NODE_PORT },
    ],
    addresses: new Set(["10.96.0.10"]),
    virtualServers: 1,
    connections: 2,
  });
});

Deno.test("connections of endpoints that were removed before the takeover keep their virtual server", () => {
  const own = new Map([[WEB, { ...server(), terminating: new Set([FIRST]) }]]);
  const { operations, connections } = planDrain(own, new Map([[WEB, new Map([[FIRST, 1]])]]), false);
  assert.deepEqual({ operations, connections }, { operations: [], connections: 1 });
});

Deno.test("at the end of the drain all virtual servers are deleted, and the addresses of their connections stay", () => {
  const { operations, addresses } = planDrain(
    new Map([[WEB, server(FIRST)]]),
    new Map([[WEB, new Map([[FIRST, 1]])]]),
    true,
  );
  assert.deepEqual(operations, [{ does: "delete", server: WEB }]);
  assert.deepEqual(addresses, new Set(["10.96.0.10"]));
});

const web = fakeServicePort("default/web", { nodePort: 30080, external: "cluster" });
const other = fakeServicePort("default/other", { clusterIP: "10.96.0.77" });

/** A node in IPVS mode with open connections, on which other modes start; with the log of all. */
async function node() {
  const { runner, clock } = createIpvsHost();
  const logged: string[] = [];
  const logger = createLogger({ level: "info", format: "text", clock, write: (line) => void logged.push(line) });
  const { ipvs } = runner;
  const prepare = async (mode: "iptables" | "ipvs") => {
    const backend = await loadBackend(mode, { family: "IPv4", runner, clock, logger, ipvs: IPVS_SETTINGS });
    await backend.setup();
    return backend;
  };
  const start = async (mode: "iptables" | "ipvs") => {
    const backend = await prepare(mode), settings = ipvsModeSettings({ mode });
    const first = await backend.sync({ revision: 1, base: undefined, settings, set: [web, other], deleted: [] });
    return { backend, first };
  };
  const nothing: FamilyDelta = { revision: 1, base: 1, settings: undefined, set: [], deleted: [] };
  const connect = (at: string, count: number) => {
    const [real] = ipvs.servers.get(at)!.reals.values();
    real!.active = count;
  };
  const held = () => ({
    servers: [...ipvs.servers.keys()],
    weights: [...ipvs.servers.values()].flatMap(({ reals }) => [...reals.values()].map(({ weight }) => weight)),
    addresses: [...ipvs.localRoutes.keys()],
    interface: ipvs.interfaces.has("kube-ipvs0"),
  });
  await start("ipvs");
  return { runner, clock, logged, prepare, start, nothing, connect, held, web: `-t ${web.clusterIP}:${web.port}` };
}

const GONE = { servers: [], weights: [], addresses: [], interface: false };

Deno.test("a takeover keeps what open connections need until they end", async () => {
  const { runner, clock, logged, start, nothing, connect, held, web: at } = await node();
  connect(at, 2);
  const { backend, first } = await start("iptables");
  assert.equal(first.counts.cleanup_failures, 0);
  assert.equal(first.againAfterMs, 5_000);
  const { servers, weights, addresses } = held();
  assert.deepEqual(servers, [at]);
  assert.ok(weights.length > 0 && weights.every((weight) => weight === 0));
  assert.deepEqual(addresses, [web.clusterIP]);
  assert.equal(held().interface, false);
  const opened = logged.filter((line) => line.includes("connections of ipvs mode are open"));
  assert.match(opened.join("\n"), /connections=2 virtualServers=1 atMostHours=24/);
  // New connections follow the new rules; nothing on this node is reached through the address.
  const from = "pod-on-node", to = web.clusterIP;
  assert.deepEqual(
    [...runner.destinations({ from, to, port: web.port }).keys()].sort(),
    [...web.clusterEndpoints].sort(),
  );
  assert.deepEqual([...runner.destinations({ from, to, port: 22 }).keys()], ["rejected"]);
  assert.doesNotMatch(runner.dump("IPv4"), /KUBE-IPVS-OUT-FILTER|KUBE-NODE-PORT -|KUBE-LOAD-BALANCER -/);

  clock.advance(2_000);
  assert.equal((await backend.sync(nothing)).againAfterMs, 3_000);
  clock.advance(3_000);
  assert.equal((await backend.sync(nothing)).againAfterMs, 30_000);
  assert.deepEqual(held().servers, [at]);
  connect(at, 0);
  clock.advance(30_000);
  assert.equal((await backend.sync(nothing)).againAfterMs, undefined);
  assert.deepEqual(held(), GONE);
  assert.doesNotMatch(runner.dump("IPv4"), /IPVS|KUBE-CLUSTER-IP/);
  assert.equal(runner.ipvs.sets.size, 0);
});

Deno.test("a takeover holds no address of the node itself, also while connections to a node port are open", async () => {
  const { start, connect, held } = await node();
  const at = held().servers.find((key) => key.endsWith(":30080"))!;
  connect(at, 1);
  await start("iptables");
  assert.deepEqual([held().servers, held().addresses], [[at], []]);
});

Deno.test("a drain that cannot weight the servers of open connections fails, and is repeated", async () => {
  const { runner, start, connect, held, nothing, web: at } = await node();
  connect(at, 1);
  runner.inject(({ stdin }) => stdin.startsWith("-e "), { how: "exits", exitCode: 1, stderr: "no memory" }, 1);
  const { backend, first } = await start("iptables");
  assert.equal(first.counts.cleanup_failures, 1);
  const { counts } = await backend.resync();
  assert.equal(counts.cleanup_failures, 0);
  await backend.sync(nothing);
  assert.ok(held().weights.every((weight) => weight === 0));
});

Deno.test("virtual servers that another program deletes meanwhile are removed, which is no failure", async () => {
  for (const count of [0, 1]) {
    const { runner, start, connect, held, web: at } = await node();
    connect(at, count);
    const answer = { how: "exits", exitCode: 255, stderr: "No such service\n", afterItsWork: true } as const;
    runner.inject(({ tool, args }) => tool === "ipvsadm" && args.includes("--restore"), answer);
    const { first } = await start("iptables");
    assert.equal(first.counts.cleanup_failures, 0);
    assert.deepEqual(held().servers, count === 0 ? [] : [at]);
  }
});

Deno.test("a virtual server that is refused for another reason than that it is gone fails the removal", async () => {
  const { runner, start, connect, web: at } = await node();
  connect(at, 0);
  const stderr = "No such service\nInvalid operation.  Possibly wrong module version, address not unicast, ...\n";
  runner.inject(({ tool, args }) => tool === "ipvsadm" && args.includes("--restore"), {
    how: "exits",
    exitCode: 255,
    stderr,
  });
  const { first } = await start("iptables");
  assert.equal(first.counts.cleanup_failures, 1);
});

Deno.test("a comparison ends a drain as well, and without connections nothing is kept", async () => {
  const { start, connect, held, web: at } = await node();
  connect(at, 1);
  const { backend } = await start("iptables");
  connect(at, 0);
  assert.equal((await backend.resync()).againAfterMs, undefined);
  assert.deepEqual(held(), GONE);
});

Deno.test("a new process continues a drain, and cleanup ends it at once", async () => {
  const { runner, start, connect, held, web: at } = await node();
  connect(at, 1);
  await start("iptables");
  const before = held();
  const { backend, first } = await start("iptables");
  assert.equal(first.againAfterMs, 5_000);
  assert.deepEqual(held(), before);
  await backend.cleanup();
  assert.deepEqual(held(), GONE);
  assert.doesNotMatch(runner.dump("IPv4"), /KUBE-/);
});

Deno.test("a cleanup releases held addresses also if another program has destroyed the sets", async () => {
  const { runner, start, connect, held, web: at } = await node();
  connect(at, 1);
  const { backend } = await start("iptables");
  assert.notEqual(runner.ipvs.localRoutes.size, 0);
  runner.ipvs.sets.clear();
  await backend.cleanup();
  assert.deepEqual(held(), GONE);
});

Deno.test("a cleanup that cannot destroy the sets fails, and leaves the interface", async () => {
  const { runner, start, held } = await node();
  const { backend } = await start("ipvs");
  const refusal = { how: "exits", exitCode: 1, stderr: "Set cannot be destroyed\n" } as const;
  runner.inject(({ tool, stdin }) => tool === "ipset" && stdin.startsWith("destroy "), refusal);
  await assert.rejects(backend.cleanup(), /Set cannot be destroyed/);
  assert.equal(held().interface, true);
});

Deno.test("a new process keeps the held addresses while the interface has addresses of the other family", async () => {
  const { runner, start, connect, held, web: at } = await node();
  connect(at, 1);
  await start("iptables");
  const before = held();
  runner.ipvs.interfaces.set("kube-ipvs0", new Set(["fd00:10:96::a/128"]));
  await start("iptables");
  assert.deepEqual(held(), { ...before, interface: true });
});

Deno.test("after a day, connections that are still open end; their addresses go with the next count", async () => {
  const { clock, logged, start, nothing, connect, held, web: at } = await node();
  connect(at, 1);
  const { backend } = await start("iptables");
  assert.ok(logged.every((line) => !/ending/.test(line)));
  clock.advance(24 * 3_600_000);
  assert.equal((await backend.sync(nothing)).againAfterMs, 5_000);
  assert.deepEqual(held(), { ...GONE, addresses: [web.clusterIP] });
  assert.match(logged.at(-1)!, /ending the connections of ipvs mode that are still open connections=1/);
  clock.advance(5_000);
  await backend.sync(nothing);
  assert.deepEqual(held(), GONE);
});

Deno.test("a return to ipvs mode during a drain restores everything", async () => {
  const { runner, start, connect, held, web: at } = await node();
  // The martian rule outlasts the mode that created it.
  const lines = () => runner.dump("IPv4").split("\n").filter((line) => !line.includes("KUBE-MARTIANS")).sort();
  const before = lines();
  connect(at, 1);
  await start("iptables");
  await start("ipvs");
  assert.deepEqual(lines(), before);
  assert.deepEqual(held().addresses, []);
  assert.ok(held().weights.every((weight) => weight === 1));
});

Deno.test("before the first rule of another mode, service addresses are no source of the node's connections any more", async () => {
  const { runner, prepare, held } = await node();
  const { servers, weights } = held();
  // The first address of the node is not the one that its default route has.
  runner.ipvs.interfaces.set("eth1", new Set(["10.0.0.1/24"]));
  await prepare("iptables");
  assert.deepEqual(held(), { servers, weights, addresses: [web.clusterIP, other.clusterIP], interface: false });
  assert.match(runner.ipvs.localRoutes.get(web.clusterIP)!, /src 192\.168\.1\.1$/);
  assert.doesNotMatch(runner.dump("IPv4"), /KUBE-SVC-/);
});

Deno.test("on a node without a default route, held addresses start from an address of the node", async () => {
  const { runner, prepare } = await node();
  runner.inject(({ args }) => args.includes("get"), { how: "exits", exitCode: 2, stderr: "Network is unreachable" });
  await prepare("iptables");
  assert.match(runner.ipvs.localRoutes.get(web.clusterIP)!, /src 192\.168\.1\.1$/);
});
