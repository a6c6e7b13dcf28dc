/** Session affinity in nftables mode with the kernel's own set of clients. */
import assert from "node:assert/strict";
import { clientElement } from "../../backends/nftables/affinity_names.ts";
import { DIALECTS } from "../../backends/nftables/table.ts";
import { createNftTools } from "../../backends/nftables/tools.ts";
import { loadBackend } from "../../backends/registry.ts";
import type { Backend } from "../../backends/contract/backend.ts";
import { shortHash } from "../../backends/reconcile/mod.ts";
import type { ServicePort } from "../../core/model/mod.ts";
import { joinHostPort } from "../../platform/address.ts";
import { systemClock } from "../../platform/clock.ts";
import { silentLogger } from "../../platform/log.ts";
import { fakeServicePort, fakeSettings } from "../fakes/service_port.ts";
import { answeringAddresses, createBlackhole, type Network, removeBlackhole, run, runner, send } from "./blackhole.ts";

const FLOWS = 60;
const PODS = [1, 2, 3];
/** The numbers of all pods that a test may have. */
const ALL_PODS = Array.from({ length: 250 }, (_, i) => i + 1);

/** Runs nft with statements as one transaction. */
async function nft(...statements: readonly string[]): Promise<void> {
  // A transaction of many thousand elements takes a busy machine longer than the limit of Sluice's small ones.
  const call = { tool: "nft", args: ["-f", "-"], stdin: [statements.join("\n")], timeoutMs: 60_000 };
  const { exitCode, stderr } = await runner.run(call);
  assert.equal(exitCode, 0, stderr);
}

for (const family of ["IPv4", "IPv6"] as const) {
  const { ip } = DIALECTS[family], addressType = family === "IPv4" ? "ipv4_addr" : "ipv6_addr";

  /** The tools of a test with a service of three endpoints and affinity, whose only client is the node. */
  interface Shop {
    readonly network: Network;
    readonly port: ServicePort;
    readonly backend: Backend;
    sync(port: ServicePort): Promise<void>;
    /** Opens flows; resolves with the numbers of the pods that they reach. Fails if one of them reaches none. */
    flows(): Promise<readonly number[]>;
    /** The set of clients as nft lists it. */
    clients(): Promise<string>;
  }

  const withShop = (name: string, test: (shop: Shop) => Promise<void>) =>
    Deno.test(`nftables, ${family}: ${name}`, async () => {
      const network = await createBlackhole(family);
      const { node, pod, service } = network;
      const backend = await loadBackend("nftables", { family, runner, clock: systemClock, logger: silentLogger });
      const port = fakeServicePort("default/dns:dns", {
        protocol: "udp",
        clusterIP: service(1),
        port: 53,
        clusterEndpoints: PODS.map((number) => joinHostPort(pod(number), 5353)),
        affinitySeconds: 10_800,
      });
      const settings = fakeSettings({ mode: "nftables", nodeIP: node, localhostNodePorts: false });
      let next = 21_000;
      try {
        await test({
          network,
          port,
          backend,
          async sync(port) {
            const { problems } = await backend.sync({
              revision: 1,
              base: undefined,
              settings,
              set: [port],
              deleted: [],
            });
            assert.deepEqual(problems, []);
          },
          async flows() {
            const first = next;
            for (; next < first + FLOWS; next++) await send(family, next, service(1), 53);
            const answers = Object.entries(await answeringAddresses(network, /^21\d{3}$/))
              .filter(([sourcePort]) => Number(sourcePort) >= first);
            const reached = answers.map(([, address]) => ALL_PODS.find((number) => pod(number) === address)!);
            assert.equal(reached.filter((pod) => pod !== undefined).length, FLOWS);
            return [...new Set(reached)];
          },
          clients: () => run("nft", "list", "set", ip, "sluice", "clients"),
        });
      } finally {
        await backend.cleanup();
        await removeBlackhole();
      }
    });

  withShop("a client is remembered under the numbers that Sluice computes", async (shop) => {
    const { network: { node }, sync, flows, clients, port } = shop;
    for (
      const changes of [{ externalIPs: [] }, { externalIPs: [shop.network.service(9)], external: "cluster" }] as const
    ) {
      await sync({ ...port, ...changes });
      const [known, ...others] = await flows();
      assert.deepEqual(others, []);
      assert.ok((await clients()).includes(clientElement(port, known! - 1, node)));
    }
  });

  withShop("a changed timeout keeps clients, and renews them with itself", async (shop) => {
    const { network: { node }, sync, flows, clients, port } = shop;
    await sync(port);
    const known = await flows();
    await sync({ ...port, affinitySeconds: 86_400 });
    assert.deepEqual(await flows(), known);
    assert.match(await clients(), new RegExp(`${clientElement(port, known[0]! - 1, node)} .* expires 23h59m`));
  });

  withShop("a client of a large service keeps its endpoint while others are replaced", async (shop) => {
    const { network: { node, pod }, sync, flows, clients, port } = shop;
    const endpoints = ALL_PODS.slice(0, 200).map((number) => joinHostPort(pod(number), 5353));
    for (
      const changes of [{ externalIPs: [] }, { externalIPs: [shop.network.service(9)], external: "cluster" }] as const
    ) {
      const large = { ...port, ...changes, clusterEndpoints: endpoints };
      await sync(large);
      const [known, ...others] = await flows();
      assert.deepEqual(others, []);
      assert.ok((await clients()).includes(clientElement(large, known! - 1, node)));
      const rest = endpoints.filter((_, i) => i + 1 === known || i % 3 > 0);
      await sync({ ...large, clusterEndpoints: [...rest, joinHostPort(pod(250), 5353)] });
      assert.deepEqual(await flows(), [known]);
    }
  });

  withShop("very many clients are left out of a listing, which is otherwise the same", async (shop) => {
    const { network: { service }, sync, port } = shop;
    const tools = createNftTools(family, runner);
    await sync({ ...port, externalIPs: [service(9)], nodePort: 30053, external: "cluster" });
    const before = new Map((await tools.readTable())!.items);
    const clients = Array.from({ length: 2 ** 14 }, (_, client) => `7 . ${client} timeout 3h`);
    await nft(`add element ${ip} sluice clients { ${clients.join(", ")} }`);
    const whole = (await tools.readTable())!.items, without = (await tools.readTable())!.items;
    assert.deepEqual([...whole.get("clients")!], [["7", "0"]]);
    assert.deepEqual(before.get("clients"), new Map());
    before.delete("clients");
    assert.deepEqual(without, before);
  });

  withShop("clients of kube-proxy keep their endpoint", async ({ network: { node }, sync, flows, port }) => {
    const sets = port.clusterEndpoints.map((endpoint) => {
      const [, address, port] = /^\[?(.+?)\]?:(\d+)$/.exec(endpoint)!;
      const base = `default/dns/udp/dns__${address!.replaceAll(":", ".")}/${port}`;
      return `kube-proxy affinity-${shortHash(base).slice(0, 8)}-${base}`;
    });
    await nft(
      `add table ${ip} kube-proxy`,
      ...sets.map((set) => `add set ${ip} ${set} { type ${addressType}; flags dynamic,timeout; timeout 3h; }`),
      `add element ${ip} ${sets[1]} { ${node} expires 59m }`,
    );
    await sync(port);
    assert.deepEqual(await flows(), [2]);
  });
}
