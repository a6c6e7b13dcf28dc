import assert from "node:assert/strict";
import fc from "fast-check";
import { type FamilySettings, type ServicePort, type ServicePortKey, servicePortKey } from "../../core/model/mod.ts";
import type { PacketRequest } from "../fakes/packet.ts";
import {
  type BackendCase,
  BACKENDS,
  commonSettings,
  type KernelUnderTest,
  ON_PURPOSE,
  serve,
} from "../unit/backends/every_backend.ts";
import { fakeServicePort } from "../fakes/service_port.ts";
import { plannedPorts } from "./planned_ports.ts";
import { runs } from "./runs.ts";

const DAY_MS = 86_400_000;

const settings: fc.Arbitrary<Partial<FamilySettings>> = fc.constantFrom(
  {},
  { masqueradeAll: true, nodeIP: "10.1.2.3", nodePortPrefixes: undefined },
  { localTraffic: { by: "none" }, masqueradeMark: 0x20 },
);

const somePorts = (maxLength: number) => fc.array(plannedPorts, { minLength: 1, maxLength });

const steps = fc.array(
  fc.record({
    does: fc.oneof(
      { weight: 6, arbitrary: fc.record({ what: fc.constant("set" as const), ports: somePorts(30) }) },
      { weight: 3, arbitrary: fc.record({ what: fc.constant("delete" as const), ports: somePorts(40) }) },
      { weight: 1, arbitrary: fc.record({ what: fc.constant("snapshot" as const), settings }) },
      { weight: 1, arbitrary: fc.record({ what: fc.constant("restart" as const) }) },
      { weight: 1, arbitrary: fc.record({ what: fc.constant("resync" as const) }) },
      {
        weight: 1,
        arbitrary: fc.record({ what: fc.constant("vandalize" as const), at: fc.nat(), how: fc.nat(11) }),
      },
    ),
    fails: fc.constantFrom("not" as const, "not" as const, "before its work" as const, "after its work" as const),
  }),
  { maxLength: 10 },
);

type History = Parameters<Parameters<typeof steps.map>[0]>[0];

/** The final set of service ports. */
interface End {
  readonly ports: ReadonlyMap<ServicePortKey, ServicePort>;
  readonly settings: FamilySettings;
}

/** Runs an action during which a tool may fail. */
async function attempt(
  kernel: KernelUnderTest,
  fails: History[number]["fails"],
  action: () => Promise<unknown>,
): Promise<void> {
  const end = fails === "not" ? () => {} : kernel.failOnce(fails);
  const failed = await action().then(() => undefined, (error: Error) => error);
  end();
  if (failed && !failed.message.includes(ON_PURPOSE)) throw failed;
}

/** Applies a history to a kernel. */
async function live(mode: BackendCase["mode"], kernel: KernelUnderTest, first: FamilySettings, history: History) {
  const ports = new Map<ServicePortKey, ServicePort>();
  let settings = first;
  let served = await serve(mode, kernel);
  const snapshot = () => served.snapshot([...ports.values()], settings);
  await snapshot();
  for (const { does, fails } of history) {
    if (does.what === "restart") served = await serve(mode, kernel);
    if (does.what === "vandalize") {
      await kernel.vandalize(does.at, does.how);
      kernel.clock.advance(DAY_MS);
    }
    await attempt(kernel, fails, () => {
      switch (does.what) {
        case "set":
          for (const port of does.ports) ports.set(servicePortKey(port.name, port.protocol), port);
          return served.change(does.ports);
        case "delete": {
          const keys = does.ports.map((port) => servicePortKey(port.name, port.protocol));
          for (const key of keys) ports.delete(key);
          return served.change([], keys);
        }
        case "snapshot":
          settings = commonSettings(mode, does.settings);
          return snapshot();
        case "restart":
          return snapshot();
        case "resync":
        case "vandalize":
          return served.resync();
      }
    });
    // The next sync completes a failed one.
    const { problems } = does.what === "vandalize" && fails !== "not" ? await served.resync() : await served.change([]);
    assert.deepEqual(problems, []);
  }
  return { served, end: { ports, settings } };
}

/**
 * Packets to every frontend of every service port from every source, except for two cases in which the modes differ
 * as kube-proxy's do: iptables mode does not refuse traffic of the node itself to an external address
 * (KUBE-EXTERNAL-SERVICES is not called for it), and only nftables mode applies a load balancer's source ranges if there
 * are no endpoints.
 */
function* packets({ ports, settings: { masqueradeMark } }: End): Generator<PacketRequest> {
  for (const servicePort of ports.values()) {
    const { protocol, clusterIP, port, externalIPs, loadBalancerIPs, nodePort, external, loadBalancerSources } =
      servicePort;
    const balancers = external === "reject" && loadBalancerSources !== undefined ? [] : loadBalancerIPs;
    const frontends = [clusterIP, ...externalIPs, ...balancers].map((to) => ({ to, port, protocol }));
    if (nodePort !== 0) frontends.push({ to: "192.168.1.1", port: nodePort, protocol });
    for (const frontend of frontends) {
      yield { from: "pod-on-node", ...frontend };
      yield { from: "outside", ...frontend };
      yield { from: { address: "10.9.9.9", interface: "eth1" }, mark: ~masqueradeMark & 0xff, ...frontend };
      const isRefused = external === "reject" || external === "drop";
      if (frontend.to === clusterIP || !isRefused) yield { from: "node", ...frontend };
    }
  }
}

Deno.test("any history of changes, restarts, failures and other programs ends in the same kernel state as a single sync, in every backend", async () => {
  await fc.assert(
    fc.asyncProperty(settings, steps, async (first, history) => {
      let answers: readonly unknown[] | undefined;
      for (const { name, mode, createKernel, hasOneListPerAddress } of BACKENDS) {
        const kernel = createKernel();
        const { served, end } = await live(mode, kernel, commonSettings(mode, first), history);
        const atOnce = createKernel();
        await (await serve(mode, atOnce)).snapshot([...end.ports.values()], end.settings);
        assert.equal(kernel.dump(), atOnce.dump(), name);
        if (hasOneListPerAddress) continue;
        // Every backend sends every packet to the same endpoints.
        const outcomes = [...packets(end)].map((packet) => ({ packet, to: served.ask(packet) }));
        answers ??= outcomes;
        assert.deepEqual(outcomes, answers, name);
      }
    }),
    runs(12),
  );
});

const MANY = Array.from({ length: 230 }, (_, i) => `10.245.${i % 3}.${i}:80`).sort();

/** One service port whose many endpoints come and go, and others. */
const versions = fc.array(
  fc.record({
    clusterEndpoints: fc.oneof(
      { weight: 3, arbitrary: fc.subarray(MANY, { minLength: 225 }) },
      { weight: 3, arbitrary: fc.subarray(MANY, { minLength: 190 }) },
      { weight: 1, arbitrary: fc.subarray(MANY, { maxLength: 2 }) },
    ),
    localEndpoints: fc.subarray(MANY.slice(0, 5)),
    endpointsOnThisNode: fc.subarray(MANY.slice(0, 5)),
    external: fc.constantFrom("cluster" as const, "cluster" as const, "local" as const),
    fails: fc.constantFrom("not" as const, "not" as const, "before its work" as const, "after its work" as const),
  }),
  { minLength: 4, maxLength: 6 },
).map((all) =>
  all.map(({ fails, external, ...lists }) => ({
    fails,
    port: fakeServicePort("default/many:p", {
      ...lists,
      nodePort: 30_000,
      internal: lists.clusterEndpoints.length > 0 ? "cluster" : "reject",
      external: lists.clusterEndpoints.length === 0
        ? "reject"
        : external === "cluster"
        ? "cluster"
        : lists.localEndpoints.length > 0
        ? "local"
        : "drop",
    }),
  }))
);

Deno.test("any changes of a service with many endpoints end in the same kernel state as a single sync, in every backend", async () => {
  await fc.assert(
    fc.asyncProperty(versions, async (history) => {
      for (const { name, mode, createKernel } of BACKENDS) {
        const kernel = createKernel(), settings = commonSettings(mode, {});
        const served = await serve(mode, kernel);
        await served.snapshot([], settings);
        for (const { port, fails } of history) {
          await attempt(kernel, fails, () => served.change([port]));
          await served.change([]);
        }
        const atOnce = createKernel();
        await (await serve(mode, atOnce)).snapshot([history.at(-1)!.port], settings);
        assert.equal(kernel.dump(), atOnce.dump(), name);
      }
    }),
    runs(12),
  );
});
