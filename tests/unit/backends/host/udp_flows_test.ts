/** The deletion of UDP flows when services change, in every mode. */
import assert from "node:assert/strict";
import type { Family, ServicePort } from "../../../../core/model/mod.ts";
import { canonicalPrefix, hostPrefix, joinHostPort } from "../../../../platform/address.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import {
  type BackendCase,
  BACKENDS,
  commonSettings,
  type KernelUnderTest,
  serve,
  type Served,
} from "../every_backend.ts";

/** Addresses of a family: endpoints `pod(1)` and so on, and frontends. */
interface Addresses {
  readonly pod: (index: number) => string;
  readonly service: (index: number) => string;
  readonly external: string;
  readonly balancer: string;
  readonly node: string;
  /** An address of neither the node nor a service. */
  readonly elsewhere: string;
}

const ADDRESSES: Readonly<Record<Family, Addresses>> = {
  IPv4: {
    pod: (index) => `10.244.1.${index}`,
    service: (index) => `10.96.0.${index}`,
    external: "192.0.2.7",
    balancer: "192.0.2.8",
    node: "192.168.1.1",
    elsewhere: "198.51.100.9",
  },
  IPv6: {
    pod: (index) => `fd00:244:1::${index}`,
    service: (index) => `fd00:96::${index}`,
    external: "2001:db8::7",
    balancer: "2001:db8::8",
    node: "fd00:192::1",
    elsewhere: "2001:db8:9::9",
  },
};

const KEY = "default/dns:dns|udp";
const NODE_PORT = 30053;

/** A backend on a kernel with flows. */
interface Lab extends Addresses {
  readonly kernel: KernelUnderTest;
  /** The service `default/dns:dns` at `service(1)`, UDP port 53, with these pods. */
  dns(pods: readonly number[], changes?: Partial<ServicePort>): ServicePort;
  /** A flow of a client to a destination, answered by another address or not translated. */
  flow(name: number, to: string, port: number, answeredBy?: string): void;
  /** The names of the remaining flows. */
  left(): number[];
  /** Starts a backend; its syncs end when the flows are removed, and return the result of the last one. */
  start(): Promise<Pick<Served, "snapshot" | "change" | "resync">>;
  settings(): ReturnType<typeof commonSettings>;
}

function createLab({ mode, createKernel }: BackendCase, family: Family): Lab {
  const addresses = ADDRESSES[family];
  const kernel = createKernel({ family, surroundings: { nodeAddresses: [addresses.node] } });
  return {
    ...addresses,
    kernel,
    dns: (pods, changes = {}) =>
      fakeServicePort("default/dns:dns", {
        protocol: "udp",
        clusterIP: addresses.service(1),
        port: 53,
        clusterEndpoints: pods.map((pod) => joinHostPort(addresses.pod(pod), 5353)),
        ...(pods.length === 0 ? { internal: "reject", external: "reject" } : {}),
        ...changes,
      }),
    flow(name, to, port, answeredBy) {
      kernel.conntrack.push({
        source: addresses.pod(9),
        sourcePort: name,
        destination: to,
        destinationPort: port,
        ...(answeredBy === undefined ? {} : { answeredBy: { address: answeredBy, port: 5353 } }),
      });
    },
    left: () => kernel.conntrack.map(({ sourcePort }) => sourcePort),
    async start() {
      const served = await serve(mode, kernel);
      const finished = async (sync: ReturnType<typeof served.snapshot>) => {
        let result = await sync;
        const { clock } = kernel;
        while (result.againAfterMs !== undefined) {
          await clock.advanceSettled(result.againAfterMs);
          result = await served.change([]);
        }
        return result;
      };
      return {
        snapshot: (...args) => finished(served.snapshot(...args)),
        change: (...args) => finished(served.change(...args)),
        resync: () => finished(served.resync()),
      };
    },
    settings: () =>
      commonSettings(mode, {
        nodeIP: addresses.node,
        nodePortPrefixes: [`${addresses.node}/${family === "IPv4" ? 32 : 128}`],
        localTraffic: { by: "none" },
      }),
  };
}

function everywhere(name: string, test: (lab: Lab) => Promise<void>): void {
  for (const backend of BACKENDS) {
    for (const family of ["IPv4", "IPv6"] as const) {
      Deno.test(`${name} (${backend.name}, ${family})`, () => test(createLab(backend, family)));
    }
  }
}

everywhere("the flows of a removed endpoint are deleted if another one serves", async (lab) => {
  const { snapshot, change } = await lab.start();
  await snapshot([lab.dns([1, 2])], lab.settings());
  lab.flow(1, lab.service(1), 53, lab.pod(1));
  lab.flow(2, lab.service(1), 53, lab.pod(2));
  const { counts } = await change([lab.dns([2])]);
  assert.deepEqual(lab.left(), [2]);
  assert.equal(counts["conntrack_deleted"], 1);
});

everywhere("when the last endpoint stops serving, its flows are deleted, and no others", async (lab) => {
  const { snapshot, change } = await lab.start();
  const other = lab.dns([3], { name: "default/other:dns", clusterIP: lab.service(2) });
  const changes = { nodePort: NODE_PORT, externalIPs: [lab.external], loadBalancerIPs: [lab.balancer] };
  await snapshot([lab.dns([1], changes), other], lab.settings());
  lab.flow(1, lab.service(1), 53, lab.pod(1));
  lab.flow(2, lab.node, NODE_PORT, lab.pod(1));
  lab.flow(3, lab.external, 53, lab.pod(1));
  lab.flow(4, lab.service(2), 53, lab.pod(3));
  // Not ours: another host's port, another port of the address.
  lab.flow(5, lab.elsewhere, NODE_PORT);
  lab.flow(6, lab.external, 54, lab.pod(1));
  lab.flow(7, lab.balancer, 53, lab.pod(1));
  lab.kernel.conntrack.push({ ...lab.kernel.conntrack[0]!, sourcePort: 8, protocol: "tcp" });
  await change([lab.dns([], { ...changes, lingeringEndpoints: [joinHostPort(lab.pod(1), 5353)] })]);
  assert.deepEqual(lab.left(), [1, 2, 3, 4, 5, 6, 7, 8], "it still serves, although it gets no new flows");
  const { counts } = await change([lab.dns([], changes)]);
  assert.deepEqual(lab.left(), [4, 5, 6, 8]);
  assert.equal(counts["conntrack_deleted"], 4);
});

everywhere("flows from before a service had an endpoint are deleted when it gets one", async (lab) => {
  const { snapshot, change } = await lab.start();
  await snapshot([lab.dns([])], lab.settings());
  lab.flow(1, lab.service(1), 53);
  await change([lab.dns([], { affinitySeconds: 60 })]);
  assert.deepEqual(lab.left(), [1]);
  await change([lab.dns([2])]);
  assert.deepEqual(lab.left(), []);
});

everywhere("flows to a terminating endpoint that still serves are kept", async (lab) => {
  const { snapshot, change } = await lab.start();
  await snapshot([lab.dns([1, 2])], lab.settings());
  lab.flow(1, lab.service(1), 53, lab.pod(1));
  await change([lab.dns([2], { lingeringEndpoints: [joinHostPort(lab.pod(1), 5353)] })]);
  assert.deepEqual(lab.left(), [1]);
  await change([lab.dns([2])]);
  assert.deepEqual(lab.left(), []);
});

everywhere("the flows of a deleted service are deleted, with or without endpoints", async (lab) => {
  const { snapshot, change } = await lab.start();
  const other = lab.dns([3], { name: "default/other:dns", clusterIP: lab.service(2) });
  await snapshot([lab.dns([1], { nodePort: NODE_PORT }), other], lab.settings());
  await change([lab.dns([], { nodePort: NODE_PORT })]);
  lab.flow(1, lab.service(1), 53, lab.pod(1));
  lab.flow(2, lab.node, NODE_PORT, lab.pod(1));
  lab.flow(3, lab.service(2), 53, lab.pod(3));
  lab.flow(4, lab.elsewhere, NODE_PORT);
  await change([], [KEY]);
  assert.deepEqual(lab.left(), [3, 4]);
});

everywhere("a service that takes over a deleted one's frontends keeps the flows to its endpoints", async (lab) => {
  const { snapshot, change } = await lab.start();
  await snapshot([lab.dns([1, 2])], lab.settings());
  lab.flow(1, lab.service(1), 53, lab.pod(1));
  lab.flow(2, lab.service(1), 53, lab.pod(2));
  await change([lab.dns([2], { name: "default/new:dns" })], [KEY]);
  assert.deepEqual(lab.left(), [2]);
});

everywhere("flows to an address from before it became a frontend are deleted when it becomes one", async (lab) => {
  const { snapshot, change } = await lab.start();
  await snapshot([lab.dns([1])], lab.settings());
  lab.flow(1, lab.external, 53);
  lab.flow(2, lab.node, NODE_PORT);
  lab.flow(3, lab.service(1), 53, lab.pod(1));
  lab.flow(4, lab.elsewhere, 53);
  await change([lab.dns([1], { externalIPs: [lab.external] })]);
  assert.deepEqual(lab.left(), [2, 3, 4]);
  await change([lab.dns([1], { externalIPs: [lab.external], nodePort: NODE_PORT })]);
  assert.deepEqual(lab.left(), [3, 4]);
  lab.flow(5, lab.service(1), 54);
  await change([lab.dns([1], { port: 54 })]);
  assert.deepEqual(lab.left(), [3, 4]);
});

everywhere("flows to an address from before a limited node port was there are deleted when it is", async (lab) => {
  const { snapshot, change } = await lab.start();
  const elsewhere = [hostPrefix(lab.elsewhere)];
  await snapshot([lab.dns([1], { nodePort: NODE_PORT, nodePortPrefixes: elsewhere })], lab.settings());
  lab.flow(1, lab.node, NODE_PORT);
  lab.flow(2, lab.service(1), 53, lab.pod(1));
  await change([lab.dns([1], { nodePort: NODE_PORT, nodePortPrefixes: [] })]);
  assert.deepEqual(lab.left(), [1, 2]);
  await change([lab.dns([1], { nodePort: NODE_PORT, nodePortPrefixes: [...elsewhere, hostPrefix(lab.node)] })]);
  assert.deepEqual(lab.left(), [2]);
  lab.flow(3, lab.elsewhere, NODE_PORT);
  await change([lab.dns([1], { nodePort: NODE_PORT })]);
  assert.deepEqual(lab.left(), [2]);
});

everywhere("the flows of a limited node port that was deleted while no proxy ran are deleted", async (lab) => {
  const wide = `${lab.node}/${lab.node.includes(":") ? 64 : 24}`;
  const prefixes = [canonicalPrefix(wide)!, hostPrefix(lab.node)];
  for (const [i, pods] of [[1], []].entries()) {
    for (const nodePortPrefixes of [prefixes, prefixes.slice(0, 1), prefixes.slice(1)]) {
      const { snapshot } = await lab.start();
      await snapshot([lab.dns(pods, { nodePort: NODE_PORT, nodePortPrefixes })], lab.settings());
      lab.flow(1, lab.node, NODE_PORT, lab.pod(1));
      await (await lab.start()).snapshot([], lab.settings());
      assert.deepEqual(lab.left(), [], `${i} ${nodePortPrefixes}`);
    }
  }
});

everywhere("at the start, a service's flows to anything but its endpoints are deleted", async (lab) => {
  lab.flow(1, lab.service(1), 53);
  lab.flow(2, lab.service(1), 53, lab.pod(1));
  lab.flow(3, lab.service(1), 53, lab.pod(2));
  const { snapshot } = await lab.start();
  await snapshot([lab.dns([1])], lab.settings());
  assert.deepEqual(lab.left(), [2]);
});

everywhere(
  "the flows of a service deleted while no proxy ran are deleted at the next start, and no others",
  async (lab) => {
    const other = lab.dns([3], { name: "default/other:dns", clusterIP: lab.service(2) });
    const refusing = lab.dns([], { name: "default/refusing:dns", clusterIP: lab.service(3) });
    const before = lab.dns([1], { nodePort: NODE_PORT, externalIPs: [lab.external] });
    await (await lab.start()).snapshot(
      [before, other, refusing, lab.dns([], { name: "x/empty:", port: 99 })],
      lab.settings(),
    );
    lab.flow(1, lab.service(1), 53, lab.pod(1));
    lab.flow(2, lab.external, 53, lab.pod(1));
    lab.flow(3, lab.node, NODE_PORT, lab.pod(1));
    lab.flow(4, lab.service(1), 99, lab.pod(1));
    lab.flow(5, lab.service(2), 53, lab.pod(3));
    lab.flow(6, lab.service(3), 53, lab.pod(2));
    lab.flow(11, lab.service(3), 53);
    // Not ours: a container's published port, an unserved destination in a service range, plain traffic.
    lab.flow(7, lab.node, 8053, lab.pod(4));
    lab.flow(8, lab.service(7), 53, lab.pod(1));
    lab.flow(9, lab.elsewhere, NODE_PORT);
    const again = await lab.start();
    const { counts } = await again.snapshot([other, refusing], lab.settings());
    assert.deepEqual(lab.left(), [5, 11, 7, 8, 9]);
    assert.equal(counts["conntrack_deleted"], 5);
    lab.flow(10, lab.service(1), 53, lab.pod(1));
    await again.resync();
    assert.deepEqual(lab.left(), [5, 11, 7, 8, 9, 10], "only flows that existed at the start");
  },
);

everywhere("a start whose first sync fails still cleans once the sync succeeds", async (lab) => {
  await (await lab.start()).snapshot([lab.dns([1])], lab.settings());
  lab.flow(1, lab.service(1), 53, lab.pod(1));
  const { snapshot } = await lab.start();
  lab.kernel.failOnce("after its work");
  await snapshot([], lab.settings()).catch(() => {});
  await snapshot([], lab.settings());
  assert.deepEqual(lab.left(), []);
});
