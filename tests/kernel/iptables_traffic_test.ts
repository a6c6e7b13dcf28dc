/** The counters of traffic of iptables mode, with real connections of a known number, in both flavours of iptables. */
import assert from "node:assert/strict";
import { createIptablesBackend } from "../../backends/iptables/backend.ts";
import type { Runner } from "../../backends/tools/runner.ts";
import type { TrafficReading } from "../../core/model/mod.ts";
import { NETWORK } from "../../demo/lab.ts";
import { joinHostPort } from "../../platform/address.ts";
import { fakeServicePort } from "../fakes/service_port.ts";
import { podSettings } from "../unit/backends/iptables/host.ts";
import { inLab } from "./in_lab.ts";
import { backendInNode, runnerInNode } from "./traffic_lab.ts";

const CLUSTER_IP = { IPv4: "10.96.0.10", IPv6: "fd00:10:96::10" } as const;
const EMPTY_IP = { IPv4: "10.96.0.11", IPv6: "fd00:10:96::11" } as const;
const CONNECTIONS = 20;

/** Runs the tools of one flavour of iptables, whichever is the default one. */
function runnerOf(flavour: "nft" | "legacy"): Runner {
  const inner = runnerInNode();
  return { run: (call) => inner.run({ ...call, tool: call.tool.replace(/^(ip6?tables)/, `$1-${flavour}`) }) };
}

/** The connections to each endpoint. */
function connectionsOf({ endpoints, counts }: TrafficReading): Record<string, number> {
  return Object.fromEntries(endpoints.map((endpoint, row) => [endpoint, counts[3 * row]!]));
}

function sum(connections: Record<string, number>): number {
  return Object.values(connections).reduce((total, one) => total + one, 0);
}

for (const flavour of ["nft", "legacy"] as const) {
  for (const family of ["IPv4", "IPv6"] as const) {
    Deno.test(`iptables-${flavour} counts every ${family} connection of a known load, with its endpoint`, () =>
      inLab(async (lab) => {
        const { podPort, pods, node } = NETWORK;
        const [one, three] = [pods["pod-1"][family], pods["pod-3"][family]].map((at) => joinHostPort(at, podPort));
        const web = fakeServicePort("default/web:http", {
          clusterIP: CLUSTER_IP[family],
          nodePort: 30080,
          clusterEndpoints: [one!, three!],
        });
        const empty = fakeServicePort("default/empty", {
          clusterIP: EMPTY_IP[family],
          clusterEndpoints: [],
          internal: "reject",
          external: "reject",
        });
        const backend = backendInNode(family, createIptablesBackend, runnerOf(flavour));
        await backend.setup();
        const settings = podSettings({ localTraffic: { by: "none" }, masqueradeAll: true, countTraffic: true });
        await backend.sync({ revision: 1, base: undefined, settings, set: [web, empty], deleted: [] });
        const connect = async (from: "node" | "pod-2" | "outside", address: string, port: number) => {
          const outcome = await lab.connect(from, { protocol: "tcp", address, port });
          assert.equal(outcome.kind, "answered", JSON.stringify(outcome));
        };
        const known = async () => {
          for (let i = 0; i < CONNECTIONS; i++) {
            for (const from of ["node", "pod-2", "outside"] as const) await connect(from, CLUSTER_IP[family], 80);
            await connect("outside", node[family], 30080);
          }
        };
        await known();
        await lab.connect("pod-2", { protocol: "tcp", address: EMPTY_IP[family], port: 80 });
        const reading = (await backend.readTraffic!())!;
        assert.deepEqual(new Set(reading.ports), new Set(["default/web:http|tcp"]));
        assert.deepEqual(new Set(reading.endpoints), new Set([one, three]));
        assert.equal(sum(connectionsOf(reading)), 4 * CONNECTIONS);
        const [failure, ...others] = reading.failures;
        assert.deepEqual(others, []);
        assert.equal(`${failure!.port} ${failure!.reason}`, "default/empty|tcp no-endpoints");
        assert.ok(failure!.packets >= 1);
        assert.deepEqual(connectionsOf((await backend.readTraffic!())!), {});

        // A change of other services keeps the counters, and one of this service loses none.
        await known();
        const other = { ...empty, clusterEndpoints: [three!], internal: "cluster", external: "cluster" } as const;
        await backend.sync({ revision: 2, base: 1, settings: undefined, set: [other], deleted: [] });
        await connect("pod-2", EMPTY_IP[family], 80);
        await backend.sync({
          revision: 3,
          base: 2,
          settings: undefined,
          set: [{ ...web, clusterEndpoints: [one!] }],
          deleted: [],
        });
        await connect("pod-2", CLUSTER_IP[family], 80);
        const after = (await backend.readTraffic!())!;
        const byPort = (key: string) =>
          after.ports.reduce((total, port, row) => total + (port === key ? after.counts[3 * row]! : 0), 0);
        assert.equal(byPort("default/web:http|tcp"), 4 * CONNECTIONS + 1);
        assert.equal(byPort("default/empty|tcp"), 1);
        assert.equal((await backend.resync()).counts["drift_repaired"], 0);
      }));
  }
}
