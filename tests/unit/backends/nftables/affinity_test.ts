import assert from "node:assert/strict";
import { shortHash } from "../../../../backends/reconcile/mod.ts";
import type { Balance, ServicePort } from "../../../../core/model/mod.ts";
import type { FakeNftHost } from "../../../fakes/nft_runner.ts";
import { applyStatement } from "../../../fakes/nft_tables.ts";
import { outcomeShares } from "../../../fakes/packet.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";
import { backendUnderTest } from "./host.ts";

const ENDPOINTS = ["10.1.0.1:80", "10.1.0.2:80", "10.1.0.3:80"] as const;
const THREE_HOURS = 10_800;
const SHOP: ServicePort = fakeServicePort("shop/web:http", {
  clusterIP: "10.96.0.1",
  clusterEndpoints: ENDPOINTS,
  affinitySeconds: THREE_HOURS,
});
/** A client that no proxy has seen, and one that several have. */
const STRANGER = "10.2.0.1", REGULAR = "10.2.0.9";

/** A backend on a host, and the connections of clients to the shop. */
function serving(host?: FakeNftHost) {
  const under = backendUnderTest(host);
  const packet = (address: string) => ({ from: { address, interface: "eth0" }, to: SHOP.clusterIP, port: SHOP.port });
  const clientSets = () => [...under.table().sets].filter(([name]) => name.startsWith("clients-"));
  return {
    ...under,
    /** The probability of each endpoint for the client's next connection. */
    shares: (client: string) => outcomeShares(under.host, packet(client)),
    connect: (client: string) => under.host.send(packet(client)).destination,
    /** Fills every set of clients as far as the kernel lets rules do it. */
    flood() {
      for (const [, { clients }] of clientSets()) {
        for (let i = clients.size; i < 65_535; i++) clients.set(`100.64.${i >> 8}.${i & 255}`, Infinity);
      }
    },
    clientSets,
  };
}

/** A host with what an earlier proxy left in the kernel. */
function hostWith(...statements: readonly string[]): FakeNftHost {
  const { host } = backendUnderTest();
  for (const statement of statements) applyStatement(host.tables, statement, 0);
  return host;
}

const SPREADS: readonly (readonly [string, Balance | undefined, readonly number[]])[] = [
  ["equally", undefined, [0.3333, 0.3333, 0.3333]],
  ["by weight", { algorithm: "random", clusterWeights: [2, 1, 1] }, [0.5, 0.25, 0.25]],
];
for (const [how, balance, expected] of SPREADS) {
  Deno.test(`a flood of clients shuts out nobody: new ones are spread ${how}, known ones keep their endpoint`, async () => {
    const { snapshot, connect, shares, flood } = serving();
    await snapshot([{ ...SHOP, balance }]);
    const known = connect(REGULAR);
    flood();
    assert.deepEqual(shares(REGULAR), { [known + " masqueraded"]: 1 });
    assert.deepEqual(
      shares(STRANGER),
      Object.fromEntries(ENDPOINTS.map((endpoint, i) => [endpoint + " masqueraded", expected[i]])),
    );
  });
}

Deno.test("a client that no set has room for reaches the endpoint of its hash", async () => {
  const hashed: ServicePort = { ...SHOP, balance: { algorithm: "consistent-hash", hash: "client" } };
  const free = serving(), flooded = serving();
  await free.snapshot([hashed]);
  await flooded.snapshot([hashed]);
  const [[, first]] = flooded.clientSets() as [ReturnType<typeof flooded.clientSets>[number]];
  flooded.flood();
  for (const [, { clients }] of flooded.clientSets().slice(1)) clients.clear();
  assert.equal(first.clients.size, 65_535);
  for (let i = 0; i < 30; i++) assert.equal(flooded.connect(`10.3.0.${i}`), free.connect(`10.3.0.${i}`));
});

Deno.test("a client for which one set has no room is remembered in another", async () => {
  const { snapshot, connect, clientSets, flood } = serving();
  await snapshot([{ ...SHOP, balance: { algorithm: "random" } }]);
  flood();
  const [[, free]] = clientSets() as [ReturnType<typeof clientSets>[number]];
  free.clients.clear();
  // A client that cannot be remembered where it was going is remembered where there is room, sooner or later.
  for (let i = 0; i < 100 && free.clients.size === 0; i++) connect(STRANGER);
  assert.ok(free.clients.has(STRANGER));
});

Deno.test("the empty set of an endpoint takes no memory: its declaration has no size, which the kernel would allocate", async () => {
  const { host, snapshot, clientSets } = serving();
  await snapshot([SHOP]);
  const declared = host.transactions.flat().filter((statement) => /^add set \S+ \S+ clients-/.test(statement));
  assert.equal(declared.length, ENDPOINTS.length);
  for (const statement of declared) assert.doesNotMatch(statement, /\bsize\b/);
  assert.ok(clientSets().every(([, { lines }]) => lines.includes("size 65535")), "the kernel limits each set");
});

Deno.test("a changed timeout keeps clients, and applies from their next connection on", async () => {
  const { snapshot, change, connect, shares, clock } = serving();
  await snapshot([SHOP]);
  const endpoint = connect(REGULAR);
  await change([{ ...SHOP, affinitySeconds: 90_061 }]);
  assert.deepEqual(shares(REGULAR), { [endpoint + " masqueraded"]: 1 });
  connect(REGULAR);
  clock.advance(90_000_000);
  assert.deepEqual(shares(REGULAR), { [endpoint + " masqueraded"]: 1 });
  clock.advance(62_000);
  assert.equal(Object.keys(shares(REGULAR)).length, 3);
});

const KUBE_PROXY_SETS = ENDPOINTS.map((endpoint) => {
  const base = `shop/web/tcp/http__${endpoint.replace(":", "/")}`;
  return `affinity-${shortHash(base).slice(0, 8)}-${base}`;
});
const KUBE_PROXY = [
  "add table ip kube-proxy",
  ...KUBE_PROXY_SETS.map((name) =>
    `add set ip kube-proxy ${name} { type ipv4_addr; flags dynamic,timeout; timeout ${THREE_HOURS}s; }`
  ),
  `add element ip kube-proxy ${KUBE_PROXY_SETS[1]} { ${REGULAR} timeout 2h, 10.2.0.8 timeout 1h }`,
];

Deno.test("clients of kube-proxy keep their endpoint", async () => {
  const { host, snapshot, shares, clientSets } = serving(hostWith(...KUBE_PROXY));
  await snapshot([SHOP]);
  for (const client of [REGULAR, "10.2.0.8"]) {
    assert.deepEqual(shares(client), { [ENDPOINTS[1] + " masqueraded"]: 1 });
  }
  assert.equal(Object.keys(shares(STRANGER)).length, 3);
  assert.equal(clientSets().length, 3);
  // The sets are full before a rule uses them.
  const statements = host.transactions.flat();
  const filled = statements.findIndex((statement) => statement.includes(REGULAR));
  assert.ok(filled < statements.findIndex((statement) => statement.includes("update @clients-")));
});

Deno.test("clients that the kernel refuses delay nothing, and are logged", async () => {
  const { host, snapshot, shares, warnings } = serving(hostWith(...KUBE_PROXY));
  host.refuses = (statement) => statement.includes(REGULAR) ? "Could not process rule: Invalid argument" : undefined;
  assert.deepEqual((await snapshot([SHOP])).problems, []);
  assert.equal(Object.keys(shares(REGULAR)).length, 3);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0]!, /services with session affinity .*Invalid argument/);
});

Deno.test("the sets of an earlier proxy are listed for a change that creates sets of clients only", async () => {
  const host = hostWith(...KUBE_PROXY), listings: string[] = [];
  const runner: FakeNftHost["runner"] = {
    ...host.runner,
    run(call) {
      if (call.args.includes("sets")) listings.push(call.args.at(-1)!);
      return host.runner.run(call);
    },
  };
  const { snapshot, change } = backendUnderTest({ ...host, runner });
  await snapshot([{ ...SHOP, affinitySeconds: 0 }]);
  assert.deepEqual(listings, []);
  await change([SHOP]);
  assert.deepEqual(listings, ["kube-proxy"]);
});
