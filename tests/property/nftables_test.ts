import assert from "node:assert/strict";
import fc from "fast-check";
import { type FamilySettings, type ServicePort, type ServicePortKey, servicePortKey } from "../../core/model.ts";
import type { NftTable } from "../fakes/nft_tables.ts";
import { fakeServicePort } from "../fakes/service_port.ts";
import { backendUnderTest, nftSettings } from "../unit/nftables/host.ts";

const DAY_MS = 86_400_000;
const ENDPOINTS = ["10.1.0.1:80", "10.1.0.2:80", "10.1.0.3:81"];
const lists = fc.subarray(ENDPOINTS);

/** Service ports that never claim each other's frontends at the same time, as the planner has it. */
const ports: fc.Arbitrary<ServicePort> = fc.record({
  index: fc.nat(11),
  external: fc.constantFrom("cluster" as const, "local" as const, "reject" as const, "drop" as const),
  internal: fc.constantFrom("cluster" as const, "local" as const, "reject" as const, "drop" as const),
  clusterEndpoints: lists,
  localEndpoints: lists,
  endpointsOnThisNode: lists,
  hasNodePort: fc.boolean(),
  hasExternalIP: fc.boolean(),
  hasBalancer: fc.boolean(),
  affinitySeconds: fc.constantFrom(0, 0, 60, 90),
  sourceRanges: fc.constantFrom([], ["10.0.0.0/8", "10.1.0.0/16"], ["192.168.1.0/24"], ["0.0.0.0/0"]),
}).map(({ index, hasNodePort, hasExternalIP, hasBalancer, ...changes }) =>
  fakeServicePort(`default/s${index}:p`, {
    ...changes,
    protocol: index % 4 === 0 ? "udp" : "tcp",
    // Neighbours share a cluster IP, with ports of their own.
    clusterIP: `10.96.0.${index >> 1}`,
    port: 80 + index,
    nodePort: hasNodePort ? 30000 + index : 0,
    externalIPs: hasExternalIP ? ["192.0.2.1"] : [],
    loadBalancerIPs: hasBalancer ? [`192.0.2.${2 + index}`] : [],
  })
);

const settings: fc.Arbitrary<FamilySettings> = fc.constantFrom(
  nftSettings(),
  nftSettings({ masqueradeAll: true, nodeIP: "10.1.2.3", nodePortPrefixes: undefined }),
  nftSettings({ localTraffic: { by: "none" }, masqueradeMark: 0x20 }),
);

/** Something that another program does to the table: the n-th thing that there is goes, or gets another content. */
const vandalism = fc.record({ does: fc.constant("vandalize" as const), at: fc.nat(), how: fc.nat(3) });

const steps = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({ does: fc.constant("set" as const), ports: fc.array(ports, { maxLength: 6 }) }),
    },
    {
      weight: 3,
      arbitrary: fc.record({ does: fc.constant("delete" as const), ports: fc.array(ports, { maxLength: 6 }) }),
    },
    { weight: 1, arbitrary: fc.record({ does: fc.constant("whole" as const), settings }) },
    { weight: 1, arbitrary: fc.record({ does: fc.constant("restart" as const) }) },
    { weight: 1, arbitrary: vandalism },
    {
      weight: 1,
      arbitrary: fc.record({ does: fc.constant("kill" as const), ports: fc.array(ports, { maxLength: 3 }) }),
    },
  ),
  { maxLength: 12 },
);

function sorted({ sets, chains }: NftTable): unknown {
  return {
    sets: [...sets].map(([name, { elements, ...rest }]) => [name, rest, [...elements].sort()]).sort(),
    chains: [...chains].sort(),
  };
}

function vandalize({ sets, chains }: NftTable, at: number, how: number): void {
  const set = [...sets.entries()].filter(([name]) => !name.startsWith("clients-"))[at % 14]?.[1];
  const key = set && [...set.elements.keys()][at % Math.max(1, set.elements.size)];
  if (how === 0 && set && key !== undefined) set.elements.delete(key);
  else if (how === 1 && set && set.kind === "map" && key !== undefined) set.elements.set(key, "goto nodeports");
  else if (how === 2) set?.elements.set("10.77.0.1 . tcp . 9", set.kind === "map" ? "goto services" : "");
  else [...chains.values()][at % chains.size]!.rules = ["drop"];
}

Deno.test("any history of changes, restarts, killed tools and other programs ends in the table that its end has at once", async () => {
  await fc.assert(
    fc.asyncProperty(settings, steps, async (first, history) => {
      let current = new Map<ServicePortKey, ServicePort>();
      let currentSettings = first;
      let under = backendUnderTest();
      const { host } = under;
      const send = () => under.whole([...current.values()], currentSettings);
      await send();
      for (const step of history) {
        const set = new Map(
          ("ports" in step ? step.ports : []).map((port) => [servicePortKey(port.name, port.protocol), port] as const),
        );
        switch (step.does) {
          case "set":
            current = new Map([...current, ...set]);
            await under.change([...set.values()]);
            break;
          case "delete":
            for (const key of set.keys()) current.delete(key);
            await under.change([], [...set.keys()]);
            break;
          case "whole":
            currentSettings = step.settings;
            await send();
            break;
          case "restart":
            under = backendUnderTest(host);
            await send();
            break;
          case "vandalize":
            vandalize(under.table(), step.at, step.how);
            under.clock.advance(DAY_MS);
            await under.backend.resync();
            break;
          case "kill":
            current = new Map([...current, ...set]);
            host.onTransaction = () => {
              throw new Error("killed");
            };
            await under.change([...set.values()]).catch(() => {});
            host.onTransaction = () => {};
            await under.change([]);
            break;
        }
        const { problems } = await under.change([]);
        assert.deepEqual(problems, []);
      }
      const atOnce = backendUnderTest();
      await atOnce.whole([...current.values()], currentSettings);
      assert.deepEqual(sorted(under.table()), sorted(atOnce.table()));
    }),
    { numRuns: 150 },
  );
});
