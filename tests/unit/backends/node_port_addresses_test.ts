/** Node ports that a Service limits to some of the node's addresses, in every backend. */
import assert from "node:assert/strict";
import type { FamilySettings, ServicePort } from "../../../core/model/mod.ts";
import { MASQUERADED, type PacketOrigin } from "../../fakes/packet.ts";
import { fakeServicePort } from "../../fakes/service_port.ts";
import { type BackendCase, BACKENDS, commonSettings, serve, type Served } from "./every_backend.ts";

const INSIDE = "192.168.1.1", OUTSIDE = "203.0.113.1", OTHER = "192.168.2.1";
const NODE_ADDRESSES = [INSIDE, OUTSIDE, OTHER];
const ENDPOINTS = ["10.244.1.1:8080"], ELSEWHERE = ["10.244.2.2:8080"];
const SERVED = { [ENDPOINTS[0]! + MASQUERADED]: 1 }, PLAIN = { [ENDPOINTS[0]!]: 1 };
const PASSED = { passed: 1 }, REJECTED = { rejected: 1 }, DROPPED = { dropped: 1 };

const limited = (changes: Partial<ServicePort> = {}) =>
  fakeServicePort("default/limited:p", {
    clusterEndpoints: ENDPOINTS,
    nodePort: 30080,
    nodePortPrefixes: ["192.168.1.0/24"],
    ...changes,
  });
const WITHOUT_ENDPOINTS = { clusterEndpoints: [], internal: "reject", external: "reject" } as const;
/** A service without the annotation. */
const OPEN = fakeServicePort("default/open:p", {
  clusterIP: "10.96.0.11",
  clusterEndpoints: ENDPOINTS,
  nodePort: 30081,
});

async function start(
  { mode, createKernel }: BackendCase,
  ports: readonly ServicePort[],
  settings: Partial<FamilySettings> = {},
): Promise<Served & { at(to: string, packet?: { port?: number; from?: PacketOrigin }): Record<string, number> }> {
  const served = await serve(mode, createKernel({ surroundings: { nodeAddresses: NODE_ADDRESSES } }));
  const all = commonSettings(mode, { nodePortPrefixes: undefined, ...settings });
  assert.deepEqual((await served.snapshot(ports, all)).problems, []);
  const at = (to: string, packet = {}) => served.ask({ from: "outside", to, port: 30080, ...packet });
  return { ...served, at };
}

function everyBackend(behaviour: string, test: (backend: BackendCase) => Promise<void>, backends = BACKENDS): void {
  for (const backend of backends) Deno.test(`${backend.name}: ${behaviour}`, () => test(backend));
}

/** Tests every backend that distinguishes sources and can drop silently. */
function everyDiscerningBackend(behaviour: string, test: (backend: BackendCase) => Promise<void>): void {
  everyBackend(behaviour, test, BACKENDS.filter(({ hasOneListPerAddress }) => !hasOneListPerAddress));
}

everyBackend("a limited node port is at the addresses in its prefixes, an unlimited one at all", async (backend) => {
  const { at, ask } = await start(backend, [limited({ nodePortPrefixes: ["192.168.1.0/24", `${OTHER}/32`] }), OPEN]);
  for (const from of ["outside", "pod-on-node", "node"] as const) {
    for (const to of [INSIDE, OTHER]) assert.deepEqual(at(to, { from }), SERVED);
    assert.deepEqual(at(OUTSIDE, { from }), PASSED);
    for (const to of NODE_ADDRESSES) assert.deepEqual(at(to, { from, port: 30081 }), SERVED);
  }
  assert.deepEqual(at("192.168.1.9"), PASSED, "not an address of this node");
  assert.deepEqual(ask(), PLAIN);
});

everyBackend("no node port is at the unspecified address, whatever the settings select", async (backend) => {
  for (const nodePortPrefixes of [undefined, ["127.0.0.0/8"], [`${INSIDE}/32`]]) {
    const { at } = await start(backend, [limited(), OPEN], { nodePortPrefixes });
    for (const from of ["outside", "pod-on-node"] as const) {
      for (const port of [30080, 30081]) assert.deepEqual(at("0.0.0.0", { from, port }), PASSED);
    }
  }
});

everyBackend("prefixes cannot add addresses to those that the settings select", async (backend) => {
  const prefixes = ["127.0.0.0/8", `${INSIDE}/32`, `${OTHER}/32`];
  const { at } = await start(backend, [limited({ nodePortPrefixes: prefixes })], {
    nodePortPrefixes: ["192.168.2.0/24", `${OUTSIDE}/32`],
  });
  assert.deepEqual(NODE_ADDRESSES.filter((to) => !at(to)["passed"]), [OTHER]);
  assert.deepEqual(at("127.0.0.1", { from: "node" }), PASSED);
});

everyBackend("without a prefix, the node port is at no address, with endpoints or without", async (backend) => {
  for (const changes of [{}, WITHOUT_ENDPOINTS]) {
    const { at } = await start(backend, [limited({ ...changes, nodePortPrefixes: [] }), OPEN]);
    for (const to of NODE_ADDRESSES) {
      assert.deepEqual(at(to), PASSED);
      assert.deepEqual(at(to, { port: 30081 }), SERVED);
    }
  }
});

everyBackend("without endpoints, it is refused at the addresses in its prefixes only", async (backend) => {
  const ports = [limited({ ...WITHOUT_ENDPOINTS, nodePortPrefixes: ["192.168.1.0/24", `${OTHER}/32`] }), OPEN];
  const { at, change } = await start(backend, ports);
  for (const from of ["outside", "node"] as const) {
    for (const to of [INSIDE, OTHER]) assert.deepEqual(at(to, { from }), REJECTED);
    assert.deepEqual(at(OUTSIDE, { from }), PASSED);
  }
  await change([limited()]);
  assert.deepEqual([INSIDE, OUTSIDE, OTHER].map((to) => at(to)), [SERVED, PASSED, PASSED]);
});

everyDiscerningBackend("policy Local and session affinity apply at the addresses in its prefixes", async (backend) => {
  for (const affinitySeconds of [0, 60]) {
    const local = { affinitySeconds, external: "local", localEndpoints: ENDPOINTS } as const;
    const { at, change } = await start(backend, [limited(local)]);
    assert.deepEqual([INSIDE, OUTSIDE].map((to) => at(to)), [PLAIN, PASSED]);
    assert.deepEqual([INSIDE, OUTSIDE].map((to) => at(to, { from: "node" })), [SERVED, PASSED]);
    await change([limited({ affinitySeconds, external: "drop", clusterEndpoints: ELSEWHERE })]);
    assert.deepEqual([INSIDE, OUTSIDE].map((to) => at(to)), [DROPPED, PASSED]);
    assert.deepEqual(at(INSIDE, { from: "pod-on-node" }), { [ELSEWHERE[0]!]: 1 });
    assert.deepEqual(at(OUTSIDE, { from: "pod-on-node" }), PASSED);
  }
});

everyBackend("it is at localhost if the settings select that, and its prefixes contain it", async (backend) => {
  const atLocalhost = async (nodePortPrefixes: readonly string[]) =>
    (await start(backend, [limited({ nodePortPrefixes })], { localhostNodePorts: true }))
      .at("127.0.0.1", { from: "node" });
  assert.deepEqual(await atLocalhost(["192.168.1.0/24"]), PASSED);
  // The other modes have no rules for localhost.
  assert.deepEqual(await atLocalhost(["127.0.0.0/8"]), backend.mode === "iptables" ? SERVED : PASSED);
});

everyBackend("IPv6 is limited the same way", async ({ mode, createKernel }) => {
  const nodeAddresses = ["fd00:168::1", "2001:db8::1"];
  const served = await serve(mode, createKernel({ family: "IPv6", surroundings: { nodeAddresses } }));
  const six = { clusterIP: "fd00:10:96::a", clusterEndpoints: ["[fd00:244::1]:8080"] };
  const settings = commonSettings(mode, {
    nodeIP: "fd00:168::1",
    nodePortPrefixes: undefined,
    localTraffic: { by: "none" },
  });
  const at = (to: string) => served.ask({ from: "outside", to, port: 30080 });
  for (const nodePortPrefixes of [["fd00:168::/64"], ["fd00:168::1/128"]]) {
    assert.deepEqual((await served.snapshot([limited({ ...six, nodePortPrefixes })], settings)).problems, []);
    assert.deepEqual(nodeAddresses.map(at), [{ [`[fd00:244::1]:8080${MASQUERADED}`]: 1 }, PASSED]);
    await served.change([limited({ ...six, ...WITHOUT_ENDPOINTS, nodePortPrefixes })]);
    assert.deepEqual(nodeAddresses.map(at), [REJECTED, PASSED]);
    await served.change([limited({ ...six, nodePortPrefixes: undefined })]);
    assert.deepEqual(at("::"), PASSED);
  }
});

/** The states of one service port over time. */
const STATES: readonly Partial<ServicePort>[] = [
  { nodePortPrefixes: undefined },
  {},
  { nodePortPrefixes: ["192.168.2.0/24", "192.168.1.0/24"] },
  { clusterEndpoints: [...ENDPOINTS, ...ELSEWHERE] },
  WITHOUT_ENDPOINTS,
  { ...WITHOUT_ENDPOINTS, nodePortPrefixes: [`${OUTSIDE}/32`] },
  { ...WITHOUT_ENDPOINTS, nodePortPrefixes: undefined },
  { external: "drop" },
  { external: "local", localEndpoints: ENDPOINTS, affinitySeconds: 60 },
  { nodePortPrefixes: [] },
  { nodePort: 0 },
];

everyBackend("whatever its state was before, a change leads to the kernel's state of a first sync", async (backend) => {
  const dumpOf = async (state: Partial<ServicePort>) => (await start(backend, [limited(state), OPEN])).kernel.dump();
  const dumps = await Promise.all(STATES.map(dumpOf));
  assert.equal(dumps.at(-1), dumps.at(-2), "a node port at no address is like none");
  assert.equal(new Set(dumps).size, STATES.length - 1, "two states look the same");
  const { kernel, change } = await start(backend, [OPEN]);
  const without = kernel.dump();
  for (let before = 0; before < STATES.length; before++) {
    for (let after = 0; after < STATES.length; after++) {
      await change([limited(STATES[before])]);
      assert.deepEqual((await change([limited(STATES[after])])).problems, []);
      assert.equal(kernel.dump(), dumps[after], `from state ${before} to ${after}`);
    }
  }
  await change([], ["default/limited:p|tcp"]);
  assert.equal(kernel.dump(), without);
});

everyBackend(
  "a change of the settings applies to limited node ports, and a comparison finds no drift",
  async (backend) => {
    const ports = [
      limited(),
      limited({ ...WITHOUT_ENDPOINTS, name: "default/gone:p", clusterIP: "10.96.0.12", nodePort: 30082 }),
    ];
    const { at, snapshot, resync, kernel } = await start(backend, ports);
    for (const nodePortPrefixes of [[`${OTHER}/32`], [`${INSIDE}/32`]]) {
      await snapshot(ports, commonSettings(backend.mode, { nodePortPrefixes, masqueradeMark: 0x20 }));
      const isSelected = nodePortPrefixes[0] === `${INSIDE}/32`;
      assert.deepEqual(at(INSIDE), isSelected ? SERVED : PASSED);
      // In iptables mode, refusals apply at all addresses of the node, as kube-proxy's do.
      if (backend.mode !== "iptables") assert.deepEqual(at(INSIDE, { port: 30082 }), isSelected ? REJECTED : PASSED);
      assert.deepEqual(at(OTHER, { port: 30082 }), PASSED);
      const before = kernel.dump();
      assert.equal((await resync()).counts["drift_repaired"] ?? 0, 0);
      assert.equal(kernel.dump(), before);
    }
  },
);

everyBackend("a restarted proxy takes over the rules of limited node ports unchanged", async (backend) => {
  const ports = [
    limited(),
    limited({ ...WITHOUT_ENDPOINTS, name: "default/gone:p", clusterIP: "10.96.0.12", nodePort: 30082 }),
  ];
  const { kernel } = await start(backend, ports);
  const before = kernel.dump();
  const again = await serve(backend.mode, kernel);
  await again.snapshot(ports, commonSettings(backend.mode, { nodePortPrefixes: undefined }));
  assert.equal(kernel.dump(), before);
  await again.snapshot([OPEN], commonSettings(backend.mode, { nodePortPrefixes: undefined }));
  assert.equal(kernel.dump(), (await start(backend, [OPEN])).kernel.dump());
});
