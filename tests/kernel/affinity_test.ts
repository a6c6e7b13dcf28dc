/** Session affinity in nftables mode with the kernel's own sets of clients. */
import assert from "node:assert/strict";
import { DIALECTS } from "../../backends/nftables/table.ts";
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
const CLIENTS_OF_AN_ENDPOINT = 65_535;
const PODS = [1, 2, 3];

/** Runs nft with statements as one transaction. */
async function nft(...statements: readonly string[]): Promise<void> {
  const { exitCode, stderr } = await runner.run({ tool: "nft", args: ["-f", "-"], stdin: [statements.join("\n")] });
  assert.equal(exitCode, 0, stderr);
}

for (const family of ["IPv4", "IPv6"] as const) {
  const { ip, addressType } = DIALECTS[family];

  /** What a test may do with a service of three endpoints and affinity, whose only client is the node. */
  interface Shop {
    readonly network: Network;
    readonly port: ServicePort;
    readonly backend: Backend;
    sync(port: ServicePort): Promise<void>;
    /** Opens flows; resolves with the numbers of the pods that they reach. Fails if one of them reaches none. */
    flows(): Promise<readonly number[]>;
    /** The sets of clients. */
    clientSets(): Promise<readonly string[]>;
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
      let next = 41_000;
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
            const answers = Object.entries(await answeringAddresses(network, /^41/))
              .filter(([sourcePort]) => Number(sourcePort) >= first);
            const reached = answers.map(([, address]) => PODS.find((number) => pod(number) === address)!);
            assert.equal(reached.filter((pod) => pod !== undefined).length, FLOWS);
            return [...new Set(reached)];
          },
          async clientSets() {
            return (await run("nft", "list", "sets", "table", ip, "sluice")).match(/(?<=set )clients-\S+/g)!;
          },
        });
      } finally {
        await backend.cleanup();
        await removeBlackhole();
      }
    });

  withShop("full sets of clients shut out no new client, and known ones keep their endpoint", async (shop) => {
    const { network: { node }, sync, flows, clientSets, port } = shop;
    await sync(port);
    const known = await flows();
    assert.equal(known.length, 1);
    const address = (i: number) => family === "IPv4" ? `100.64.${i >> 8}.${i & 255}` : `fd64::${i.toString(16)}`;
    const clients = Array.from({ length: CLIENTS_OF_AN_ENDPOINT - 1 }, (_, i) => address(i)).join(" timeout 1h, ");
    const sets = await clientSets();
    assert.equal(sets.length, PODS.length);
    await nft(...sets.map((set) => `add element ${ip} sluice ${set} { ${clients} timeout 1h }`));
    const last = family === "IPv4" ? "100.65.0.0" : "fd65::";
    for (const set of sets) {
      await runner.run({ tool: "nft", args: [`add element ${ip} sluice ${set} { ${last} timeout 1h }`] });
    }
    assert.deepEqual(await flows(), known);
    // The client is new, and another one takes its place.
    for (const set of sets) {
      await runner.run({ tool: "nft", args: [`delete element ${ip} sluice ${set} { ${node} }`] });
      await runner.run({ tool: "nft", args: [`add element ${ip} sluice ${set} { ${last} timeout 1h }`] });
    }
    assert.deepEqual((await flows()).toSorted(), PODS);
  });

  withShop("a changed timeout keeps clients, and renews them with itself", async (shop) => {
    const { network: { node }, sync, flows, clientSets, port } = shop;
    await sync(port);
    const known = await flows();
    await sync({ ...port, affinitySeconds: 86_400 });
    assert.deepEqual(await flows(), known);
    const listed = await Promise.all((await clientSets()).map((set) => run("nft", "list", "set", ip, "sluice", set)));
    assert.match(listed.join(""), new RegExp(`${node}.* expires 23h59m`));
  });

  withShop(
    "clients of kube-proxy keep their endpoint",
    async ({ network: { node }, sync, flows, port, clientSets }) => {
      const sets = port.clusterEndpoints.map((endpoint) => {
        const [, address, port] = /^\[?(.+?)\]?:(\d+)$/.exec(endpoint)!;
        const base = `default/dns/udp/dns__${address!.replaceAll(":", ".")}/${port}`;
        return `affinity-${shortHash(base).slice(0, 8)}-${base}`;
      });
      await nft(
        `add table ${ip} kube-proxy`,
        ...sets.map((set) =>
          `add set ${ip} kube-proxy ${set} { type ${addressType}; flags dynamic,timeout; timeout 3h; }`
        ),
        `add element ${ip} kube-proxy ${sets[1]} { ${node} expires 59m }`,
      );
      await sync(port);
      assert.deepEqual(await flows(), [2]);
      assert.equal((await clientSets()).length, PODS.length);
    },
  );
}
