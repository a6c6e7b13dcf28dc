/** The counters of traffic of nftables mode, with real connections of a known number. */
import assert from "node:assert/strict";
import type { TrafficReading } from "../../core/model/mod.ts";
import { NETWORK } from "../../demo/lab.ts";
import { joinHostPort } from "../../platform/address.ts";
import { fakeServicePort } from "../fakes/service_port.ts";
import { nftSettings } from "../unit/backends/nftables/host.ts";
import { inLab } from "./in_lab.ts";
import { backendInNode } from "./traffic_lab.ts";

const CLUSTER_IP = { IPv4: "10.96.0.10", IPv6: "fd00:10:96::10" } as const;
const EMPTY_IP = { IPv4: "10.96.0.11", IPv6: "fd00:10:96::11" } as const;
const CONNECTIONS = 20;

function total({ counts }: TrafficReading, kind: 0 | 1 | 2): number {
  return counts.filter((_, i) => i % 3 === kind).reduce((sum, count) => sum + count, 0);
}

for (const family of ["IPv4", "IPv6"] as const) {
  Deno.test(`every ${family} connection of a known load is counted, with its endpoint`, () =>
    inLab(async (lab) => {
      const { podPort, pods, node } = NETWORK;
      const endpoints = [pods["pod-1"][family], pods["pod-3"][family]].map((address) => joinHostPort(address, podPort));
      const web = fakeServicePort("default/web:http", {
        clusterIP: CLUSTER_IP[family],
        nodePort: 30080,
        clusterEndpoints: endpoints,
      });
      const empty = fakeServicePort("default/empty", {
        clusterIP: EMPTY_IP[family],
        clusterEndpoints: [],
        internal: "reject",
        external: "reject",
      });
      const backend = backendInNode(family);
      const settings = nftSettings({
        localTraffic: { by: "none" },
        masqueradeAll: true,
        nodePortPrefixes: undefined,
        countTraffic: true,
      });
      await backend.sync({ revision: 1, base: undefined, settings, set: [web, empty], deleted: [] });
      for (let i = 0; i < CONNECTIONS; i++) {
        for (const from of ["node", "pod-2", "outside"] as const) {
          const outcome = await lab.connect(from, { protocol: "tcp", address: CLUSTER_IP[family], port: 80 });
          assert.equal(outcome.kind, "answered", JSON.stringify(outcome));
        }
        await lab.connect("outside", { protocol: "tcp", address: node[family], port: 30080 });
      }
      await lab.connect("pod-2", { protocol: "tcp", address: EMPTY_IP[family], port: 80 });
      const reading = (await backend.readTraffic!())!;
      assert.equal(total(reading, 0), 4 * CONNECTIONS);
      assert.deepEqual(new Set(reading.ports), new Set(["default/web:http|tcp"]));
      assert.deepEqual(new Set(reading.endpoints), new Set(endpoints));
      // A handshake, a request, an answer and the end, in both directions.
      assert.ok(total(reading, 1) >= 7 * 4 * CONNECTIONS, `${total(reading, 1)} packets`);
      assert.ok(total(reading, 2) >= 7 * 4 * CONNECTIONS * (family === "IPv4" ? 52 : 72));
      const [failure, ...others] = reading.failures;
      assert.deepEqual(others, []);
      assert.equal(`${failure!.port} ${failure!.reason}`, "default/empty|tcp no-endpoints");
      assert.ok(failure!.packets >= 1);
      assert.deepEqual((await backend.readTraffic!())!.failures, []);
      await lab.run("pod-1", ["nft", "add table inet silent"]);
      await lab.run("pod-1", ["nft", "add chain inet silent in { type filter hook input priority 0; }"]);
      await lab.run("pod-1", ["nft", `add rule inet silent in tcp dport ${podPort} drop`]);
      const unanswered = async (): Promise<TrafficReading> => {
        await lab.connect("pod-2", { protocol: "tcp", address: CLUSTER_IP[family], port: 80, timeoutMs: 1_500 });
        const reading = (await backend.readTraffic!())!;
        return reading.failures.length > 0 ? reading : await unanswered();
      };
      const [silent] = (await unanswered()).failures;
      assert.equal(`${silent!.port} ${silent!.reason}`, "default/web:http|tcp unanswered");
    }));
}
