/** Algorithms and weights in nftables mode with real packets. */
import assert from "node:assert/strict";
import { loadBackend } from "../../backends/registry.ts";
import { type Balance, balanceTable } from "../../core/model/mod.ts";
import { joinHostPort } from "../../platform/address.ts";
import { systemClock } from "../../platform/clock.ts";
import { silentLogger } from "../../platform/log.ts";
import { drawByHash, registersOf } from "../fakes/jhash.ts";
import { fakeServicePort, fakeSettings } from "../fakes/service_port.ts";
import { answeringAddresses, createBlackhole, type Network, removeBlackhole, runner, send } from "./blackhole.ts";

const SEED = 0x51c1ce;
const FLOWS = 300;
const PODS = [1, 2, 3];

for (const family of ["IPv4", "IPv6"] as const) {
  /** Runs a test with a service of three endpoints; `flows` opens 300 and resolves with the number of the pod of each. */
  const withService = (
    name: string,
    balance: Balance,
    test: (
      flows: () => Promise<readonly { readonly sourcePort: number; readonly pod: number }[]>,
      network: Network,
    ) => Promise<void>,
  ) =>
    Deno.test(`nftables, ${family}: ${name}`, async () => {
      const network = await createBlackhole(family);
      const { node, pod, service } = network;
      const backend = await loadBackend("nftables", { family, runner, clock: systemClock, logger: silentLogger });
      const port = fakeServicePort("default/dns:dns", {
        protocol: "udp",
        clusterIP: service(1),
        port: 53,
        clusterEndpoints: PODS.map((number) => joinHostPort(pod(number), 5353)),
        balance,
      });
      try {
        await backend.setup();
        const settings = fakeSettings({ mode: "nftables", nodeIP: node, localhostNodePorts: false });
        const { problems } = await backend.sync({ revision: 1, base: undefined, settings, set: [port], deleted: [] });
        assert.deepEqual(problems, []);
        await test(async () => {
          for (let i = 0; i < FLOWS; i++) await send(family, 21_000 + i, service(1), 53);
          const answers = Object.entries(await answeringAddresses(network, /^21\d{3}$/));
          assert.equal(answers.length, FLOWS);
          return answers.map(([sourcePort, address]) => ({
            sourcePort: Number(sourcePort),
            pod: PODS.find((number) => pod(number) === address)!,
          }));
        }, network);
      } finally {
        await backend.cleanup();
        await removeBlackhole();
      }
    });

  for (const hash of ["flow", "client"] as const) {
    const balance: Balance = { algorithm: "consistent-hash", hash };
    withService(
      `consistent-hash by ${hash} follows the table, so that every node chooses the same endpoint`,
      balance,
      async (flows, { node, pod }) => {
        const endpoints = PODS.map((number) => joinHostPort(pod(number), 5353));
        const table = balanceTable(balance, { endpoints, weights: undefined })!;
        for (const { sourcePort, pod } of await flows()) {
          const bytes = registersOf(hash === "flow" ? [node, String(sourcePort)] : [node]);
          assert.equal(pod, PODS[table[drawByHash(bytes, table.length, SEED)]!]);
        }
      },
    );
  }

  withService(
    "round-robin gives each endpoint the same number of flows",
    { algorithm: "round-robin" },
    async (flows) => {
      const found = await flows();
      for (const number of PODS) assert.equal(found.filter(({ pod }) => pod === number).length, FLOWS / 3);
    },
  );

  const weighted: Balance = { algorithm: "random", clusterWeights: [3, 0, 1] };
  withService("weights decide the share of each endpoint", weighted, async (flows) => {
    const found = await flows(), first = found.filter(({ pod }) => pod === 1).length;
    assert.ok(!found.some(({ pod }) => pod === 2));
    // 300 draws of 3/4: seven standard deviations are 53.
    assert.ok(Math.abs(first - 225) < 53, String(first));
  });
}
