import assert from "node:assert/strict";
import { shortHash } from "../../../../backends/reconcile/mod.ts";
import { type Balance, type ServicePort, servicePortKey } from "../../../../core/model/mod.ts";
import type { FakeNftHost } from "../../../fakes/nft_runner.ts";
import { applyStatement, type NftTable, sizeOf } from "../../../fakes/nft_tables.ts";
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
  const packet = (address: string, to = SHOP.clusterIP) => ({
    from: { address, interface: "eth0" },
    to,
    port: SHOP.port,
  });
  return {
    ...under,
    packet,
    /** The probability of each endpoint for the client's next connection. */
    shares: (client: string) => outcomeShares(under.host, packet(client)),
    connect: (client: string, to?: string) => under.host.send(packet(client, to)).destination,
    clients: () => under.table().sets.get("clients")!.clients,
    /** Sets and chains that belong to service ports with session affinity. */
    objects: () =>
      [...under.table().sets.keys(), ...under.table().chains.keys()].filter((name) =>
        /^affinity-|^endpoints-/.test(name)
      ),
  };
}

/** A host with what an earlier proxy left in the kernel. */
function hostWith(...statements: readonly string[]): FakeNftHost {
  const { host } = backendUnderTest();
  for (const statement of statements) applyStatement(host.tables, statement, 0);
  return host;
}

/** Addresses of clients with different hashes. */
const CLIENTS = Array.from({ length: 40 }, (_, i) => `10.2.1.${i}`);
const OTHER: ServicePort = { ...SHOP, name: "shop/other:http", clusterIP: "10.96.0.2" };
/** Service ports that each have chains of their own, and one that shares its chain. */
const KINDS: Readonly<Record<string, Partial<ServicePort>>> = {
  "at its cluster IP": { external: "reject" },
  "at a load balancer": { external: "cluster", loadBalancerIPs: ["192.0.2.1"] },
  "with weights": { external: "reject", balance: { algorithm: "random", clusterWeights: [2, 1, 1] } },
};

for (const [kind, changes] of Object.entries(KINDS)) {
  const shop = { ...SHOP, ...changes };

  Deno.test(`an endpoint that leaves or joins moves no client of others (${kind})`, async () => {
    const { snapshot, change, connect, shares } = serving();
    await snapshot([shop]);
    const before = new Map(CLIENTS.map((client) => [client, connect(client)]));
    assert.equal(new Set(before.values()).size, 3);
    const keeping = [...before].filter(([, endpoint]) => endpoint !== ENDPOINTS[0]);
    const staysWith = (endpoint: string, client: string) =>
      assert.deepEqual(Object.keys(shares(client)), [endpoint + " masqueraded"]);
    await change([{ ...shop, clusterEndpoints: ENDPOINTS.slice(1), balance: undefined }]);
    for (const [client, endpoint] of keeping) staysWith(endpoint, client);
    assert.equal(Object.keys(shares(STRANGER)).length, 2);
    await change([{
      ...shop,
      clusterEndpoints: ["10.1.0.0:80", ...ENDPOINTS.slice(1), "10.1.0.9:80"],
      balance: undefined,
    }]);
    for (const [client, endpoint] of keeping) staysWith(endpoint, client);
    assert.equal(Object.keys(shares(STRANGER)).length, 4);
  });

  Deno.test(`a restart keeps clients at their endpoints and writes nothing (${kind})`, async () => {
    const before = serving();
    await before.snapshot([shop]);
    const rest = [...ENDPOINTS.slice(1), "10.1.0.4:80"];
    const changed = { ...shop, clusterEndpoints: rest, balance: undefined };
    await before.change([{ ...changed, clusterEndpoints: rest.slice(0, 2) }]);
    await before.change([changed]);
    const at = new Map(CLIENTS.map((client) => [client, before.connect(client)]));
    const written = before.host.transactions.length;
    const after = serving(before.host);
    await after.snapshot([changed]);
    assert.equal(before.host.transactions.length, written);
    await after.change([{ ...changed, clusterEndpoints: rest.slice(1) }]);
    for (const [client, endpoint] of at) if (endpoint !== rest[0]) assert.equal(after.connect(client), endpoint);
  });
}

Deno.test("a client whose endpoint is gone stays with its next one, whatever endpoints join, also after a restart", async () => {
  for (const changes of Object.values(KINDS)) {
    const { host, snapshot, change, connect, shares } = serving();
    const shop = { ...SHOP, ...changes, balance: undefined };
    await snapshot([shop]);
    const gone = connect(REGULAR)!, rest = ENDPOINTS.filter((endpoint) => endpoint !== gone);
    await change([{ ...shop, clusterEndpoints: rest }]);
    const next = connect(REGULAR)!;
    await change([{ ...shop, clusterEndpoints: ["10.1.0.0:80", ...rest] }]);
    assert.deepEqual(Object.keys(shares(REGULAR)), [next + " masqueraded"]);
    const after = serving(host);
    await after.snapshot([{ ...shop, clusterEndpoints: rest }]);
    await after.change([{ ...shop, clusterEndpoints: [...rest, "10.1.0.4:80", "10.1.0.5:80"] }]);
    assert.deepEqual(Object.keys(after.shares(REGULAR)), [next + " masqueraded"]);
  }
});

Deno.test("a client keeps its endpoint when its service port gets frontends or loses them", async () => {
  const { snapshot, change, connect } = serving();
  await snapshot([{ ...SHOP, external: "reject" }]);
  const at = new Map(CLIENTS.map((client) => [client, connect(client)]));
  await change([{ ...SHOP, loadBalancerIPs: ["192.0.2.1"] }]);
  for (const [client, endpoint] of at) assert.equal(connect(client, "192.0.2.1"), endpoint);
  await change([{ ...SHOP, external: "reject" }]);
  for (const [client, endpoint] of at) assert.equal(connect(client), endpoint);
});

Deno.test("service ports share their chains and the set of clients, but no client", async () => {
  const { snapshot, change, host, connect, objects, packet, shares } = serving();
  await snapshot([SHOP, OTHER].map((port) => ({ ...port, external: "reject" as const })));
  assert.deepEqual(objects(), ["endpoints-tcp-10800-0", "affinity-to-tcp-10800-0-2"]);
  connect(REGULAR);
  assert.equal(Object.keys(shares(REGULAR)).length, 1);
  assert.equal(Object.keys(outcomeShares(host, packet(REGULAR, OTHER.clusterIP))).length, 3);
  const next = ["10.1.0.7:80", ...ENDPOINTS.slice(1)];
  await change([{ ...OTHER, external: "reject", clusterEndpoints: next }]);
  assert.deepEqual(objects(), ["endpoints-tcp-10800-0", "affinity-to-tcp-10800-0-2", "affinity-to-tcp-10800-1-3"]);
  host.transactions.length = 0;
  await change([{ ...SHOP, external: "reject", clusterEndpoints: next }]);
  assert.deepEqual(objects(), ["endpoints-tcp-10800-0", "affinity-to-tcp-10800-1-3"]);
  assert.deepEqual(host.transactions[0]!.filter((statement) => statement.includes(" element ")), [
    "delete element ip sluice services { 10.96.0.1 . tcp . 80 }",
    "delete element ip sluice endpoints-tcp-10800-0 { 10.96.0.1 . 80 . 0 }",
    "add element ip sluice services { 10.96.0.1 . tcp . 80 : goto affinity-to-tcp-10800-1-3 }",
    "add element ip sluice endpoints-tcp-10800-0 { 10.96.0.1 . 80 . 3 : 10.1.0.7 . 80 }",
  ]);
});

/** Service ports with many endpoints, and the most rules that a replaced endpoint writes of 200 or 300. */
const LARGE: Readonly<Record<string, readonly [changes: Partial<ServicePort>, rules: number]>> = {
  "at its cluster IP": [{ external: "reject" }, 120],
  "at a load balancer": [{ external: "cluster", loadBalancerIPs: ["192.0.2.1"] }, 120],
  "in turn": [{ external: "reject", balance: { algorithm: "round-robin" } }, 250],
};

for (const [kind, [changes, mostRules]] of Object.entries(LARGE)) {
  const endpointsOf = (first: number, count: number) =>
    Array.from({ length: count }, (_, i) => `10.1.${(first + i) >> 8}.${(first + i) & 255}:80`);
  const large = { ...SHOP, ...changes, clusterEndpoints: endpointsOf(0, 100) };
  const rulesWritten = (host: FakeNftHost) =>
    host.transactions.flat().filter((statement) => statement.startsWith("add rule"));

  Deno.test(`a change of a large service writes few rules and moves no client (${kind})`, async () => {
    const { host, snapshot, change, connect, shares } = serving();
    await snapshot([large]);
    const at = new Map(CLIENTS.map((client) => [client, connect(client)]));
    assert.ok(new Set(at.values()).size > 20);
    const gone = at.get(CLIENTS[0]!)!;
    const rest = [...large.clusterEndpoints.filter((endpoint) => endpoint !== gone), "10.1.9.9:80"];
    host.transactions.length = 0;
    await change([{ ...large, clusterEndpoints: rest }]);
    assert.ok(rulesWritten(host).length < mostRules, `${rulesWritten(host).length} rules`);
    const elements = host.transactions.flat().filter((statement) => / endpoints-\S+ \{ /.test(statement));
    assert.ok(elements.every((statement) => !statement.includes(",")), "more than one endpoint's elements are written");
    for (const [client, endpoint] of at) {
      if (endpoint !== gone) assert.deepEqual(Object.keys(shares(client)), [endpoint + " masqueraded"]);
    }
    if (large.balance) return;
    const ofStranger = Object.entries(shares(STRANGER));
    assert.deepEqual(ofStranger.map(([outcome]) => outcome).sort(), rest.map((text) => `${text} masqueraded`).sort());
    for (const [, share] of ofStranger) assert.ok(Math.abs(share - 1 / 100) < 1e-9);
  });

  Deno.test(`after a restart, a large service is written no more and keeps its clients (${kind})`, async () => {
    const before = serving();
    const scattered = large.clusterEndpoints.filter((_, i) => i % 2 === 0);
    await before.snapshot([large]);
    await before.change([{ ...large, clusterEndpoints: scattered }]);
    const at = new Map(CLIENTS.map((client) => [client, before.connect(client)]));
    before.host.transactions.length = 0;
    const after = serving(before.host);
    await after.snapshot([{ ...large, clusterEndpoints: scattered }]);
    assert.deepEqual(before.host.transactions, []);
    await after.change([{ ...large, clusterEndpoints: [...scattered, ...endpointsOf(300, 50)] }]);
    for (const [client, endpoint] of at) assert.equal(after.connect(client), endpoint);
    await after.change([{ ...large, clusterEndpoints: scattered.slice(0, 9) }]);
    for (const [client, endpoint] of at) {
      if (scattered.indexOf(endpoint!) < 9) assert.equal(after.connect(client), endpoint);
    }
    assert.ok(after.objects().every((name) => !/-(known|new)-/.test(name)));
  });
}

/** Changes by another program to the table of a large service, whose endpoints 96 to 100 it affects. */
const DAMAGE: Readonly<Record<string, readonly [changes: Partial<ServicePort>, damage: (table: NftTable) => void]>> = {
  "a chain of a block lost its rules": [{ external: "cluster", loadBalancerIPs: ["192.0.2.1"] }, ({ chains }) => {
    for (const [name, chain] of chains) if (/-known-3$/.test(name)) chain.rules = [];
  }],
  "a jump to a block is gone": [{ external: "reject" }, ({ chains }) => {
    for (const chain of chains.values()) chain.rules = chain.rules.filter((rule) => !/^jump \S+-3-/.test(rule));
  }],
  "elements of endpoints are gone": [{ external: "reject" }, ({ sets }) => {
    sets.get("endpoints-tcp-10800-3")!.elements.clear();
  }],
};

for (const [kind, [changes, damage]] of Object.entries(DAMAGE)) {
  Deno.test(`a repair moves no client of a large service (${kind})`, async () => {
    const { snapshot, change, connect, table, backend } = serving();
    const many = Array.from({ length: 100 }, (_, i) => `10.1.1.${i}:80`);
    await snapshot([{ ...SHOP, ...changes, clusterEndpoints: many }]);
    await change([{ ...SHOP, ...changes, clusterEndpoints: ["10.1.0.9:80", ...many.slice(1)] }]);
    const clients = Array.from({ length: 200 }, (_, i) => `10.2.1.${i}`);
    const at = new Map(clients.map((client) => [client, connect(client)]));
    damage(table());
    assert.deepEqual((await backend.resync()).problems, []);
    for (const [client, endpoint] of at) assert.equal(connect(client), endpoint);
  });
}

Deno.test("large service ports with endpoints of the same numbers share the chains of their blocks", async () => {
  const { snapshot, objects, connect } = serving();
  const many = Array.from({ length: 70 }, (_, i) => `10.1.1.${i}:80`);
  await snapshot([SHOP, OTHER].map((port) => ({ ...port, external: "reject" as const, clusterEndpoints: many })));
  const blocks = ["0-ffff", "1-ffff", "2-ffff", "3-ffff", "4-003f"].flatMap((block) =>
    ["known", "new"].map((clients) => `affinity-to-${clients}-tcp-10800-${block}`)
  );
  const maps = [0, 1, 2].map((index) => `endpoints-tcp-10800-${index}`);
  const heads = ["shop/web:httptcp", "shop/other:httptcp"].map((name) => `affinity-${shortHash(name)}`);
  assert.deepEqual(objects().sort(), [...blocks, ...heads, ...maps].sort());
  for (const { clusterIP } of [SHOP, OTHER]) assert.equal(connect(REGULAR, clusterIP), connect(REGULAR, clusterIP));
});

/** Changes that give a service port chains that no other has. */
const RARE: Readonly<Record<string, Partial<ServicePort>>> = {
  "another timeout": { affinitySeconds: 1_000 },
  "many endpoints": { clusterEndpoints: Array.from({ length: 200 }, (_, i) => `10.1.${i >> 8}.${i & 255}:80`) },
};

for (const [kind, changes] of Object.entries(RARE)) {
  Deno.test(`a rule looks into a map of 32 numbers of one timeout, and clients stay (${kind})`, async () => {
    const { snapshot, change, connect, table, objects } = serving();
    await snapshot([SHOP, { ...OTHER, external: "reject" }]);
    const endpoint = connect(REGULAR);
    const changed = {
      ...SHOP,
      ...changes,
      clusterEndpoints: [...new Set([...ENDPOINTS, ...changes.clusterEndpoints ?? []])],
    };
    await change([changed]);
    for (const [name, { rules }] of table().chains) {
      const maps = new Set(rules.flatMap((rule) => rule.match(/(?<= map @)\S+/) ?? []));
      assert.ok(maps.size < 2 && !maps.has("tcp-endpoints"), name);
    }
    for (const [name, { elements }] of table().sets) {
      const ofShop = [...elements.keys()].filter((key) => key.startsWith(`${SHOP.clusterIP} . 80 . `));
      assert.ok(ofShop.length <= 32, name);
    }
    assert.equal(connect(REGULAR), endpoint);
    await change([SHOP]);
    assert.equal(table().sets.get("endpoints-tcp-10800-0")!.elements.size, 2 * ENDPOINTS.length);
    assert.equal(connect(REGULAR), endpoint);
    await change([], [servicePortKey(SHOP.name, SHOP.protocol)]);
    assert.deepEqual(objects(), ["endpoints-tcp-10800-0", "affinity-to-tcp-10800-0-2"]);
  });
}

/** Puts the endpoints of all service ports into the one map, and gives chains the names, that earlier versions had. */
function asEarlierVersion({ sets, chains }: NftTable): void {
  for (const [name, { elements }] of [...sets]) {
    if (!name.startsWith("endpoints-tcp-")) continue;
    for (const [key, value] of elements) sets.get("tcp-endpoints")!.elements.set(key, value);
    sets.delete(name);
  }
  const earlier = (text: string) =>
    text.replace(/\baffinity-to-((?:known-|new-)?tcp-)/, "affinity-$1").replace(/@endpoints-\S+/, "@tcp-endpoints");
  for (const [name, chain] of [...chains]) {
    chains.delete(name);
    chains.set(earlier(name), { ...chain, rules: chain.rules.map(earlier) });
  }
  const { elements } = sets.get("services")!;
  for (const [key, verdict] of elements) elements.set(key, earlier(verdict));
}

for (const count of [3, 100]) {
  Deno.test(`clients of an earlier version keep their endpoints, and its chains are deleted (${count} endpoints)`, async () => {
    const before = serving();
    const many = Array.from({ length: count }, (_, i) => `10.1.1.${i}:80`);
    const shop = { ...SHOP, external: "reject" as const, clusterEndpoints: many };
    await before.snapshot([shop]);
    const changed = { ...shop, clusterEndpoints: [...many.slice(1), "10.1.0.1:80", "10.1.0.2:80"] };
    await before.change([changed]);
    const at = new Map(CLIENTS.map((client) => [client, before.connect(client)]));
    const objects = before.objects().sort();
    asEarlierVersion(before.table());
    for (const [client, endpoint] of at) assert.equal(before.connect(client), endpoint);
    const after = serving(before.host);
    await after.snapshot([changed]);
    for (const [client, endpoint] of at) assert.equal(after.connect(client), endpoint);
    assert.deepEqual(after.objects().sort(), objects);
    assert.equal(after.table().sets.get("tcp-endpoints")!.elements.size, 0);
  });
}

Deno.test("a flood of addresses fills the room of one service port, and shuts out nobody", async () => {
  const { snapshot, connect, clients, shares } = serving();
  await snapshot([SHOP, OTHER].map((port) => ({ ...port, external: "reject" as const })));
  const known = connect(REGULAR);
  for (let i = 0; i < 3_000; i++) connect(`100.${64 + (i >> 14)}.${i >> 8 & 63}.${i & 255}`);
  assert.ok(clients().size <= 3_001);
  const numbers = [...clients().keys()].map((key) => Number(key.split(" . ")[1]));
  assert.ok(numbers.every((number) => number < 3 * 65_536));
  assert.deepEqual(shares(REGULAR), { [known + " masqueraded"]: 1 });
});

const SPREADS: readonly (readonly [string, Balance | undefined, readonly number[]])[] = [
  ["equally", undefined, [0.3333, 0.3333, 0.3333]],
  ["by weight", { algorithm: "random", clusterWeights: [2, 1, 1] }, [0.5, 0.25, 0.25]],
];
for (const [how, balance, expected] of SPREADS) {
  Deno.test(`without room for clients, new ones are spread ${how}, and known ones keep their endpoint`, async () => {
    const { snapshot, connect, shares, table } = serving();
    await snapshot([{ ...SHOP, external: "reject", balance }]);
    const known = connect(REGULAR), set = table().sets.get("clients")!;
    set.lines = set.lines.map((line) => line.startsWith("size ") ? "size 1" : line);
    assert.deepEqual(shares(REGULAR), { [known + " masqueraded"]: 1 });
    assert.deepEqual(
      shares(STRANGER),
      Object.fromEntries(ENDPOINTS.map((endpoint, i) => [endpoint + " masqueraded", expected[i]])),
    );
    connect(STRANGER);
    assert.equal(Object.keys(shares(STRANGER)).length, 3);
  });
}

Deno.test("without room for clients, new ones are spread over endpoints whose numbers have gaps", async () => {
  const { snapshot, change, shares, table } = serving();
  const many = [...ENDPOINTS, "10.1.0.4:80", "10.1.0.5:80"], left = many.filter((_, i) => i !== 1 && i !== 3);
  await snapshot([{ ...SHOP, external: "reject", clusterEndpoints: many }]);
  await change([{ ...SHOP, external: "reject", clusterEndpoints: left }]);
  const set = table().sets.get("clients")!;
  set.lines = set.lines.map((line) => line.startsWith("size ") ? "size 0" : line);
  assert.deepEqual(shares(STRANGER), Object.fromEntries(left.map((endpoint) => [endpoint + " masqueraded", 0.3333])));
});

Deno.test("the kernel allocates no table for a set of clients at once: the lower 16 bits of its size are 0", async () => {
  const { snapshot, table } = serving();
  await snapshot([]);
  assert.equal(sizeOf(table().sets.get("clients")!) % 65_536, 0);
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
  // One of iptables, older than kube-proxy's.
  "add table ip filter",
  "add table ip kube-proxy",
  ...KUBE_PROXY_SETS.map((name) =>
    `add set ip kube-proxy ${name} { type ipv4_addr; flags dynamic,timeout; timeout ${THREE_HOURS}s; }`
  ),
  `add element ip kube-proxy ${KUBE_PROXY_SETS[1]} { ${REGULAR} timeout 2h, 10.2.0.8 timeout 1h }`,
  // The elements of its other sets do not expire.
  "add set ip kube-proxy cluster-ips { type ipv4_addr; }",
  "add element ip kube-proxy cluster-ips { 10.96.0.10 }",
];

Deno.test("clients of kube-proxy keep their endpoint", async () => {
  for (const changes of Object.values(KINDS)) {
    const { host, snapshot, shares } = serving(hostWith(...KUBE_PROXY));
    await snapshot([{ ...SHOP, ...changes }]);
    for (const client of [REGULAR, "10.2.0.8"]) {
      assert.deepEqual(shares(client), { [ENDPOINTS[1] + " masqueraded"]: 1 });
    }
    assert.equal(Object.keys(shares(STRANGER)).length, 3);
    // They are there before a rule looks for them.
    const statements = host.transactions.flat();
    const filled = statements.findIndex((statement) => statement.startsWith("add element ip sluice clients "));
    assert.ok(filled < statements.findIndex((statement) => statement.includes("update @clients")));
  }
});

Deno.test("sets of clients that an earlier layout had are deleted", async () => {
  const { host, snapshot, table } = serving();
  await snapshot([SHOP]);
  table().sets.set("clients-ABCDEFGHIJKLMNOP", {
    kind: "set",
    lines: ["type ipv4_addr", "size 65535", "flags dynamic,timeout"],
    elements: new Map(),
    counters: new Map(),
    clients: new Map([[REGULAR, 1e9]]),
  });
  await serving(host).snapshot([SHOP]);
  assert.deepEqual([...table().sets.keys()].filter((name) => name.startsWith("clients")), ["clients"]);
});

Deno.test("clients that the kernel refuses delay nothing, and are logged", async () => {
  const { host, snapshot, shares, warnings } = serving(hostWith(...KUBE_PROXY));
  host.refuses = (statement) =>
    statement.startsWith("add element ip sluice clients ") ? "Could not process rule: Invalid argument" : undefined;
  assert.deepEqual((await snapshot([SHOP])).problems, []);
  assert.equal(Object.keys(shares(REGULAR)).length, 3);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0]!, /services with session affinity .*Invalid argument/);
});

Deno.test("the sets of kube-proxy are listed for a change that begins session affinity only", async () => {
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

Deno.test("comparisons leave out very many clients, repair the rest, and give no number of a gone endpoint again", async () => {
  const { host, snapshot, change, connect, shares, clients, table, backend } = serving();
  await snapshot([SHOP]);
  const gone = connect(REGULAR)!, rest = ENDPOINTS.filter((endpoint) => endpoint !== gone);
  for (let hash = 0; hash < 16_384; hash++) clients().set(`7 . ${hash}`, 1e12);
  for (const _ of ["by the long-running nft", "by one that counts them"]) await backend.resync();
  const { listings } = host;
  await change([{ ...SHOP, clusterEndpoints: rest }]);
  table().sets.get("services")!.elements.clear();
  await backend.resync();
  assert.equal(host.listings, listings);
  assert.equal(table().sets.get("services")!.elements.size, 1);
  const written = host.transactions.length;
  await backend.resync();
  assert.equal(host.transactions.length, written);
  await change([{ ...SHOP, clusterEndpoints: ["10.1.0.0:80", ...rest] }]);
  assert.equal(Object.keys(shares(REGULAR)).length, 3);
});

Deno.test("the more clients there are, the more other sets are listed one by one without them", async () => {
  const { host, snapshot, clients, backend } = serving();
  const ports = Array.from({ length: 300 }, (_, i) => ({
    ...SHOP,
    name: `default/shop-${i}:p`,
    clusterIP: `10.96.${i >> 8}.${i & 255}`,
    affinitySeconds: 600 + i,
  }));
  await snapshot(ports);
  const listed = async (count: number) => {
    for (let hash = 0; hash < count; hash++) clients().set(`7 . ${hash}`, 1e12);
    for (const _ of ["by the long-running nft", "by one that counts them"]) await backend.resync();
    const { listings } = host;
    await backend.resync();
    return host.listings - listings;
  };
  assert.equal(await listed(16_384), 1);
  assert.equal(await listed(24_576), 0);
});

Deno.test("after a hundred comparisons without very many clients, one has all again", async () => {
  const { host, snapshot, clients, backend } = serving();
  await snapshot([SHOP]);
  for (let hash = 0; hash < 16_384; hash++) clients().set(`7 . ${hash}`, 1e12);
  await backend.resync();
  clients().clear();
  const { listings } = host;
  for (let comparison = 0; comparison < 100; comparison++) await backend.resync();
  assert.equal(host.listings, listings);
  for (const _ of ["finds few clients", "has all, as always"]) await backend.resync();
  assert.equal(host.listings, listings + 2);
});
