/** The paths of packets, for behaviour shared by all backends. */
import assert from "node:assert/strict";
import type { FamilySettings, ServicePort } from "../../../core/model/mod.ts";
import { MASQUERADED } from "../../fakes/packet.ts";
import { fakeServicePort, fakeSources } from "../../fakes/service_port.ts";
import { type BackendCase, BACKENDS, type CaseOptions, commonSettings, serve, type Served } from "./every_backend.ts";

const THREE = ["10.244.1.1:8080", "10.244.1.2:8080", "10.244.2.3:8081"];
const third = (suffix = "") => Object.fromEntries(THREE.map((endpoint) => [endpoint + suffix, 0.3333]));
const PLAIN = { [THREE[0]!]: 1 }, ONE_MASQUERADED = { [THREE[0]! + MASQUERADED]: 1 };

const web = (changes: Partial<ServicePort> = {}) =>
  fakeServicePort("default/web:http", { clusterEndpoints: THREE, ...changes });
const one = (changes: Partial<ServicePort> = {}) => web({ clusterEndpoints: [THREE[0]!], ...changes });

/** Serves service ports with the common settings and these changes to them, on a host with these options. */
type Start = (
  ports: readonly ServicePort[],
  settings?: Partial<FamilySettings>,
  host?: CaseOptions,
) => Promise<Served>;

/** Tests every backend. */
function everyBackend(behaviour: string, test: (start: Start) => Promise<void>): void {
  testBackends(BACKENDS, behaviour, test);
}

/** Tests every backend that distinguishes sources and can drop silently. */
function everyDiscerningBackend(behaviour: string, test: (start: Start) => Promise<void>): void {
  testBackends(BACKENDS.filter(({ hasOneListPerAddress }) => !hasOneListPerAddress), behaviour, test);
}

function testBackends(
  backends: readonly BackendCase[],
  behaviour: string,
  test: (start: Start) => Promise<void>,
): void {
  for (const { name, mode, createKernel } of backends) {
    Deno.test(`${name}: ${behaviour}`, () =>
      test(async (ports, settings, host) => {
        const served = await serve(mode, createKernel(host));
        assert.deepEqual((await served.snapshot(ports, commonSettings(mode, settings))).problems, []);
        return served;
      }));
  }
}

everyBackend(
  "a cluster IP's endpoints get equal shares; traffic not from a pod of this node is masqueraded",
  async (start) => {
    const { ask } = await start([web()]);
    assert.deepEqual(ask(), third());
    assert.deepEqual(ask({ from: "outside" }), third(MASQUERADED));
    assert.deepEqual(ask({ from: "node" }), third(MASQUERADED));
  },
);

everyBackend(
  "what arrives from elsewhere for a loopback address is dropped, whatever is served there",
  async (start) => {
    const outsiders = ["pod-on-node", "outside", { address: "127.0.0.1", interface: "eth0" }] as const;
    for (const nodePortPrefixes of [undefined, ["127.0.0.0/8"], ["192.168.1.1/32"]]) {
      const port = one({ nodePort: 30080, loadBalancerIPs: ["127.0.0.9"] });
      const { ask } = await start([port], { nodePortPrefixes, localhostNodePorts: true });
      for (const from of outsiders) {
        for (const [to, port] of [["127.0.0.1", 30080], ["127.7.7.7", 30080], ["127.0.0.9", 80]] as const) {
          for (const state of ["NEW", "ESTABLISHED", "UNTRACKED"] as const) {
            assert.deepEqual(ask({ from, to, port, state }), { dropped: 1 }, `${JSON.stringify(from)} ${to} ${state}`);
          }
        }
        assert.deepEqual(ask({ from, to: "127.0.0.1", port: 53, protocol: "udp" }), { dropped: 1 });
      }
      assert.deepEqual(ask({ from: "node", to: "127.0.0.1", port: 53, protocol: "udp" }), { passed: 1 });
      assert.match(Object.keys(ask({ from: "node", to: "127.0.0.9" })).join(), /^10\.244\.1\.1:8080/);
    }
  },
);

everyBackend("the detection of local traffic decides what is masqueraded", async (start) => {
  const asking = async (settings: Partial<FamilySettings>) => (await start([one()], settings)).ask;
  const behind = (name: string) => ({ from: { address: "10.9.9.9", interface: name } });
  assert.deepEqual((await asking({ masqueradeAll: true }))(), ONE_MASQUERADED);
  assert.deepEqual((await asking({ localTraffic: { by: "none" } }))({ from: "outside" }), PLAIN);
  const bridge = await asking({ localTraffic: { by: "bridge", interface: "cbr0" } });
  assert.deepEqual(bridge(behind("cbr0")), PLAIN);
  assert.deepEqual(bridge(behind("cbr01")), ONE_MASQUERADED);
  const prefix = await asking({ localTraffic: { by: "interface-prefix", prefix: "veth" } });
  assert.deepEqual(prefix(behind("veth7")), PLAIN);
  assert.deepEqual(prefix(behind("eth0")), ONE_MASQUERADED);
});

everyBackend("the masquerade mark is configurable, and only its bit of a packet's mark is changed", async (start) => {
  const { kernel } = await start([one()], { masqueradeMark: 0x20 });
  const [first] = kernel.host.outcomes({ from: "outside", to: "10.96.0.10", port: 80, mark: 0x4001 });
  assert.equal(first!.outcome.masqueraded, true);
  assert.equal(first!.outcome.mark, 0x4001);
});

everyBackend("protocols and ports are distinguished, and other addresses are unaffected", async (start) => {
  const udp = fakeServicePort("default/dns:dns", { protocol: "udp", port: 53, clusterEndpoints: ["10.244.1.5:5353"] });
  const sctp = fakeServicePort("default/sig:sig", { protocol: "sctp", clusterEndpoints: ["10.244.1.6:9"] });
  const { ask } = await start([one(), udp, sctp]);
  assert.deepEqual(ask(), PLAIN);
  assert.deepEqual(ask({ protocol: "udp", port: 53 }), { "10.244.1.5:5353": 1 });
  assert.deepEqual(ask({ protocol: "sctp" }), { "10.244.1.6:9": 1 });
  assert.deepEqual(ask({ to: "10.96.0.11" }), { passed: 1 });
});

everyDiscerningBackend(
  "a frontend without endpoints is rejected, and one without local endpoints is dropped",
  async (start) => {
    const gone = { clusterEndpoints: [], nodePort: 30080, externalIPs: ["192.0.2.1"], loadBalancerIPs: ["192.0.2.2"] };
    for (const [verdict, outcome] of [["reject", "rejected"], ["drop", "dropped"]] as const) {
      const { ask } = await start([web({ ...gone, internal: verdict, external: verdict })]);
      for (const from of ["pod-on-node", "outside", "node"] as const) {
        assert.deepEqual(ask({ from }), { [outcome]: 1 }, `${verdict} ${from}`);
      }
      for (const to of ["192.0.2.1", "192.0.2.2"]) assert.deepEqual(ask({ from: "outside", to }), { [outcome]: 1 });
      assert.deepEqual(ask({ from: "outside", to: "192.168.1.1", port: 30080 }), { [outcome]: 1 });
      assert.deepEqual(ask({ from: "outside", to: "192.168.1.1", port: 30081 }), { passed: 1 });
    }
  },
);

everyBackend("external addresses and node ports are masqueraded under policy Cluster", async (start) => {
  const { ask } = await start([
    web({ nodePort: 30080, externalIPs: ["192.0.2.1"], loadBalancerIPs: ["192.0.2.2"] }),
  ]);
  for (const from of ["outside", "pod-on-node", "node"] as const) {
    for (const to of ["192.0.2.1", "192.0.2.2"]) assert.deepEqual(ask({ from, to }), third(MASQUERADED));
  }
  assert.deepEqual(ask({ from: "outside", to: "192.168.1.1", port: 30080 }), third(MASQUERADED));
  assert.deepEqual(ask(), third());
});

everyBackend("node ports are served on the configured node addresses only", async (start) => {
  const surroundings = { nodeAddresses: ["192.168.1.1", "192.168.2.1"] };
  const on = async (nodePortPrefixes: string[] | undefined) => {
    const { ask } = await start([one({ nodePort: 30080 })], { nodePortPrefixes }, { surroundings });
    return ["192.168.1.1", "192.168.2.1", "192.168.2.9", "127.0.0.1"].filter((to) =>
      !ask({ from: to === "127.0.0.1" ? "node" : "outside", to, port: 30080 })["passed"]
    );
  };
  assert.deepEqual(await on(undefined), surroundings.nodeAddresses);
  assert.deepEqual(await on(["0.0.0.0/0"]), surroundings.nodeAddresses);
  assert.deepEqual(await on(["192.168.1.1/32"]), ["192.168.1.1"]);
  assert.deepEqual(await on(["192.168.2.0/24", "127.0.0.0/8"]), ["192.168.2.1"]);
});

for (const affinitySeconds of [0, 60]) {
  const how = affinitySeconds === 0 ? "" : ", with affinity as well";

  everyDiscerningBackend(
    `policy Local keeps outside clients' addresses and uses local endpoints for them, all endpoints for others${how}`,
    async (start) => {
      const local = {
        affinitySeconds,
        external: "local",
        localEndpoints: [THREE[0]!],
        nodePort: 30080,
        externalIPs: ["192.0.2.1"],
      } as const;
      const { ask } = await start([web(local)]);
      const { ask: dropping } = await start([web({ ...local, external: "drop", localEndpoints: [] })]);
      for (const frontend of [{ to: "192.168.1.1", port: 30080 }, { to: "192.0.2.1" }]) {
        assert.deepEqual(ask({ ...frontend, from: "outside" }), PLAIN);
        assert.deepEqual(dropping({ ...frontend, from: "outside" }), { dropped: 1 });
        for (const send of [ask, dropping]) {
          assert.deepEqual(send({ ...frontend, from: "pod-on-node" }), third());
          assert.deepEqual(send({ ...frontend, from: "node" }), third(MASQUERADED));
        }
      }
      // The cluster IP's own policy is unchanged.
      assert.deepEqual(ask({ from: "outside" }), third(MASQUERADED));
    },
  );
}

everyDiscerningBackend("policy Local without endpoints drops, and rejects at the cluster IP", async (start) => {
  const { ask } = await start([
    web({ external: "drop", internal: "reject", loadBalancerIPs: ["192.0.2.2"], clusterEndpoints: [] }),
  ]);
  assert.deepEqual(ask({ from: "outside", to: "192.0.2.2" }), { dropped: 1 });
  assert.deepEqual(ask(), { rejected: 1 });
});

everyBackend("a load balancer address admits listed sources and drops others", async (start) => {
  const { ask } = await start([
    one({
      nodePort: 30080,
      loadBalancerIPs: ["192.0.2.2"],
      externalIPs: ["192.0.2.1"],
      loadBalancerSources: fakeSources(["203.0.113.0/24", "203.0.113.128/25"]),
    }),
  ]);
  const from = (address: string) => ({ from: { address, interface: "eth0" }, to: "192.0.2.2" });
  assert.deepEqual(ask(from("203.0.113.9")), ONE_MASQUERADED);
  assert.deepEqual(ask(from("198.51.100.9")), { dropped: 1 });
  assert.deepEqual(ask({ from: "node", to: "192.0.2.2" }), { dropped: 1 });
  // The ranges apply to load balancer addresses only.
  assert.deepEqual(ask({ ...from("198.51.100.9"), to: "192.0.2.1" }), ONE_MASQUERADED);
  assert.deepEqual(ask({ ...from("198.51.100.9"), to: "192.168.1.1", port: 30080 }), ONE_MASQUERADED);
  assert.deepEqual(ask(), PLAIN);
});

everyBackend(
  "source ranges that include the node also admit traffic sent from the load balancer address",
  async (start) => {
    const { ask } = await start([
      one({ loadBalancerIPs: ["192.0.2.2"], loadBalancerSources: fakeSources(["192.168.1.1/32"]) }),
    ]);
    assert.deepEqual(ask({ from: "node", to: "192.0.2.2" }), ONE_MASQUERADED);
    assert.deepEqual(ask({ from: { address: "192.0.2.2" }, to: "192.0.2.2" }), ONE_MASQUERADED);
    assert.deepEqual(ask({ to: "192.0.2.2" }), { dropped: 1 });
  },
);

everyBackend("source ranges that include all addresses admit every source", async (start) => {
  const { ask } = await start([
    one({ loadBalancerIPs: ["192.0.2.2"], loadBalancerSources: fakeSources(["10.0.0.0/8", "0.0.0.0/0"]) }),
  ]);
  assert.deepEqual(ask({ from: "outside", to: "192.0.2.2" }), ONE_MASQUERADED);
});

everyDiscerningBackend(
  "with affinity a client keeps its endpoint at every frontend until the timeout; other clients are spread",
  async (start) => {
    const { ask, send, kernel } = await start([web({ affinitySeconds: 60, nodePort: 30080 })]);
    assert.deepEqual(ask(), third());
    const first = send();
    assert.deepEqual(ask(), { [first]: 1 });
    assert.deepEqual(ask({ to: "192.168.1.1", port: 30080 }), { [first + MASQUERADED]: 1 });
    assert.deepEqual(ask({ from: { address: "10.244.1.9", interface: "cni0" } }), third());
    kernel.clock.advance(59_000);
    send();
    kernel.clock.advance(59_000);
    assert.deepEqual(ask(), { [first]: 1 });
    kernel.clock.advance(62_000);
    assert.deepEqual(ask(), third());
  },
);

everyBackend(
  "a client keeps its endpoint when others are added, and gets another when it is removed",
  async (start) => {
    const port = web({ affinitySeconds: 60 });
    const { ask, send, change } = await start([port]);
    const first = send();
    await change([{ ...port, clusterEndpoints: [...THREE, "10.244.1.9:8080"] }]);
    assert.deepEqual(ask(), { [first]: 1 });
    const rest = THREE.filter((endpoint) => endpoint !== first);
    await change([{ ...port, clusterEndpoints: rest }]);
    assert.deepEqual(ask(), Object.fromEntries(rest.map((endpoint) => [endpoint, 0.5])));
  },
);

everyBackend("a pod that reaches itself is masqueraded; one that reaches another is not", async (start) => {
  const { ask } = await start([web({ endpointsOnThisNode: THREE.slice(0, 2) })]);
  assert.deepEqual(ask({ from: { address: "10.244.1.1", interface: "cni0" } }), {
    [THREE[0]! + MASQUERADED]: 0.3333,
    [THREE[1]!]: 0.3333,
    [THREE[2]!]: 0.3333,
  });
});

everyBackend(
  "each of several hundred services reaches its own endpoint, and other traffic is unaffected",
  async (start) => {
    const ports = Array.from({ length: 400 }, (_, i) =>
      fakeServicePort(`default/s${i}:p`, {
        // Some share an address, others are far apart.
        clusterIP: i % 7 === 0
          ? "10.96.0.1"
          : i % 5 === 0
          ? `10.${100 + i % 100}.${i >> 8}.9`
          : `10.96.${i >> 6}.${i & 63}`,
        port: 1000 + i,
        nodePort: 30000 + i,
        clusterEndpoints: [`10.244.${i >> 7}.${i & 127}:${2000 + i}`],
      }));
    const { ask } = await start(ports);
    for (const { clusterIP, port, nodePort, clusterEndpoints } of ports) {
      assert.deepEqual(ask({ to: clusterIP, port }), { [clusterEndpoints[0]!]: 1 });
      const masqueraded = { [clusterEndpoints[0]! + MASQUERADED]: 1 };
      assert.deepEqual(ask({ from: "outside", to: "192.168.1.1", port: nodePort }), masqueraded);
      const [stray] = Object.keys(ask({ to: clusterIP, port: port + 1000 }));
      assert.ok(stray === "passed" || stray === "rejected");
    }
  },
);

everyBackend("IPv6 is served the same way", async (start) => {
  const endpoints = ["[fd00:244:1::1]:8080", "[fd00:244:2::2]:8080"];
  const six = fakeServicePort("default/web:http", {
    clusterIP: "fd00:10:96::a",
    clusterEndpoints: endpoints,
    endpointsOnThisNode: endpoints.slice(0, 1),
    loadBalancerIPs: ["2001:db8::2"],
    loadBalancerSources: fakeSources(["2001:db8:113::/64"]),
    nodePort: 30080,
  });
  const changes = { nodePort: 0, loadBalancerIPs: [], loadBalancerSources: undefined };
  const sticky = { ...six, ...changes, name: "default/sticky:p", clusterIP: "fd00:10:96::c", affinitySeconds: 5 };
  const gone = {
    ...six,
    ...changes,
    name: "default/gone:p",
    clusterIP: "fd00:10:96::b",
    internal: "reject",
    external: "reject",
    clusterEndpoints: [],
  } as const;
  const localTraffic = { by: "source-prefix", prefix: "fd00:244:1::/64" } as const;
  const settings = { localTraffic, nodeIP: "fd00:168::1", nodePortPrefixes: ["fd00:168::1/128"] };
  const { ask, send } = await start([six, sticky, gone], settings, { family: "IPv6" });
  const half = (suffix = "") => Object.fromEntries(endpoints.map((endpoint) => [endpoint + suffix, 0.5]));
  const to = "fd00:10:96::a";
  assert.deepEqual(ask({ to }), half());
  assert.deepEqual(ask({ to, from: "outside" }), half(MASQUERADED));
  assert.deepEqual(ask({ to, from: { address: "fd00:244:1::1", interface: "cni0" } }), {
    [endpoints[0]! + MASQUERADED]: 0.5,
    [endpoints[1]!]: 0.5,
  });
  assert.deepEqual(ask({ to: "fd00:10:96::b" }), { rejected: 1 });
  assert.deepEqual(ask({ to: "2001:db8::2", from: "outside" }), half(MASQUERADED));
  assert.deepEqual(ask({ to: "2001:db8::2", from: { address: "2001:db9::1", interface: "eth0" } }), { dropped: 1 });
  assert.deepEqual(ask({ to: "fd00:168::1", port: 30080, from: "outside" }), half(MASQUERADED));
  assert.deepEqual(ask({ to: "::1", port: 30080, from: "node" }), { passed: 1 });
  const first = send({ to: "fd00:10:96::c" });
  assert.deepEqual(ask({ to: "fd00:10:96::c" }), { [first]: 1 });
});
