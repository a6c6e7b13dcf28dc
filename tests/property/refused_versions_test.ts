/** Versions of service ports that the kernel refuses, in nftables mode. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { type ServicePort, servicePortKey } from "../../core/model/mod.ts";
import { createFakeNftHost } from "../fakes/nft_runner.ts";
import { outcomeShares, type PacketRequest } from "../fakes/packet.ts";
import { fakeServicePort, fakeSources } from "../fakes/service_port.ts";
import { backendUnderTest } from "../unit/backends/nftables/host.ts";
import { runs } from "./runs.ts";

const DAY_MS = 86_400_000;
/** The kernel refuses everything with this endpoint. */
const REFUSED = "10.1.66.66:80";
const ENDPOINTS = Array.from({ length: 5 }, (_, i) => `10.1.1.${i + 1}:80`);
const policies = fc.constantFrom("cluster" as const, "local" as const);

/** Versions of three service ports, with and without node port, load balancer, ranges and session affinity. */
const version = fc.record({
  index: fc.nat(2),
  endpoints: fc.subarray(ENDPOINTS),
  locals: fc.subarray(ENDPOINTS),
  isRefused: fc.boolean(),
  hasNodePort: fc.constantFrom(true, true, false),
  balancers: fc.constantFrom(0, 1, 2, 10),
  internal: policies,
  external: policies,
  affinitySeconds: fc.constantFrom(0, 0, 60, 90),
  ranges: fc.constantFrom(0, 1, 120),
}).map(({ index, isRefused, hasNodePort, balancers, ranges, affinitySeconds, ...version }): ServicePort => {
  const more = isRefused ? [REFUSED] : [];
  const clusterEndpoints = [...version.endpoints, ...more], localEndpoints = [...version.locals, ...more];
  const verdict = (policy: "cluster" | "local") =>
    policy === "local" ? localEndpoints.length > 0 ? "local" : "drop" : clusterEndpoints.length > 0 ? policy : "reject";
  return fakeServicePort(`default/s${index}:p`, {
    clusterIP: `10.96.0.${index}`,
    clusterEndpoints,
    localEndpoints,
    endpointsOnThisNode: localEndpoints,
    nodePort: hasNodePort ? 30_000 + index : 0,
    loadBalancerIPs: Array.from({ length: balancers }, (_, i) => `192.0.${index}.${i}`),
    loadBalancerSources: fakeSources(Array.from({ length: ranges }, (_, i) => `10.${i}.0.0/16`)),
    internal: verdict(version.internal),
    external: clusterEndpoints.length > 0 ? verdict(version.external) : "reject",
    affinitySeconds,
  });
});

const steps = fc.array(
  fc.record({
    set: fc.array(version, { maxLength: 4 }),
    deleted: fc.array(fc.nat(2), { maxLength: 1 }),
    reverted: fc.array(fc.nat(2), { maxLength: 2 }),
    compares: fc.boolean(),
  }),
  { minLength: 3, maxLength: 8 },
);

/** The packets to the frontends of a service port. */
function* packetsTo({ clusterIP, loadBalancerIPs, nodePort }: ServicePort): Generator<PacketRequest> {
  const frontends = [clusterIP, ...loadBalancerIPs.slice(0, 2)].map((to) => ({ to, port: 80 }));
  if (nodePort !== 0) frontends.push({ to: "192.168.1.1", port: nodePort });
  for (const frontend of frontends) {
    for (const from of ["pod-on-node", "outside"] as const) yield { from, ...frontend };
  }
}

const isRefused = ({ clusterEndpoints }: ServicePort) => clusterEndpoints.includes(REFUSED);

/** A service port: its version, the last one that was not refused, and the packets to frontends that all since then have. */
interface Life {
  readonly port: ServicePort;
  readonly accepted?: ServicePort;
  readonly packets: readonly PacketRequest[];
}

function nextLife(before: Life | undefined, port: ServicePort): Life {
  const packets = [...packetsTo(port)];
  if (!isRefused(port)) return { port, accepted: port, packets };
  const has = ({ to, port }: PacketRequest) => packets.some((other) => other.to === to && other.port === port);
  return { ...before, port, packets: before?.packets.filter(has) ?? [] };
}

Deno.test("whatever changes around them, refused service ports keep their earlier rules, and all others are written", async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (history) => {
      const host = createFakeNftHost(), { backend, clock, snapshot, change } = backendUnderTest(host);
      const address = REFUSED.slice(0, REFUSED.indexOf(":"));
      host.refuses = (statement) =>
        statement.includes(address) ? "Could not process rule: Invalid argument" : undefined;
      const lives = new Map<string, Life>();
      await snapshot([]);
      for (const { set, deleted, reverted, compares } of history) {
        const ports = new Map(set.map((port) => [port.name, port]));
        for (const name of reverted.map((index) => `default/s${index}:p`)) {
          const accepted = lives.get(name)?.accepted;
          if (accepted) ports.set(name, accepted);
        }
        const gone = deleted.map((index) => `default/s${index}:p`).filter((name) => !ports.has(name));
        for (const name of gone) lives.delete(name);
        for (const [name, port] of ports) lives.set(name, nextLife(lives.get(name), port));
        const changed = await change([...ports.values()], gone.map((name) => servicePortKey(name, "tcp")));
        if (compares) clock.advance(DAY_MS);
        const { problems } = compares ? await backend.resync() : changed;
        const all = [...lives.values()], refused = all.map(({ port }) => port).filter(isRefused);
        assert.deepEqual(problems.map((problem) => problem.servicePort).sort(), refused.map(({ name }) => name).sort());
        const other = backendUnderTest();
        await other.snapshot(all.flatMap(({ accepted }) => accepted ?? []));
        for (const packet of all.flatMap(({ packets }) => packets)) {
          assert.deepEqual(outcomeShares(host, packet), outcomeShares(other.host, packet), JSON.stringify(packet));
        }
      }
    }),
    runs(20),
  );
});
