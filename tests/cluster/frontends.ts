/** Connections through every kind of frontend, under both traffic policies, with the servers and the client's address that these see. */
import { type Case, type Expected, tryAll } from "./connections.ts";
import type { PartOutcome, Trial } from "./results.ts";
import { type Addresses, addressesOf, BALANCED, bridgeOf, type Cluster, sh } from "./cluster.ts";
import { FAMILIES } from "../../platform/mod.ts";
import {
  addressesOfPods,
  balance,
  type Client,
  create,
  createNamespace,
  createService,
  deleteNamespace,
  type Frontends,
  hostClient,
  podClient,
  podObject,
} from "./pods.ts";

const SERVERS = ["server-1", "server-2"];
const SERVICE_PORTS = { tcp: 80, udp: 80 };
const HOST_PORT = 8085;

/** Addresses of load balancers and external IPs, by the last byte. */
function balanced(last: number): Addresses {
  return { IPv4: `${BALANCED.IPv4}.${last}`, IPv6: `${BALANCED.IPv6}:${last}` };
}

const BALANCER = { cluster: balanced(11), local: balanced(12), empty: balanced(13) };
const EXTERNAL = { cluster: balanced(21), local: balanced(22) };

/** All kinds of frontends, their servers, and their clients. */
export interface Scene {
  readonly cases: readonly Case[];
  readonly outside: Client;
  /** The client in a pod of this name. */
  readonly client: (name: PodName) => Client;
  /** A Service with both servers and both policies Cluster. */
  readonly spread: Frontends;
  /** The labels of the servers, the first of which is on node1, the other on node2. */
  readonly server: Readonly<Record<string, string>>;
}

/** The pods of the scene. */
export type PodName = "server-1" | "server-2" | "client-1" | "client-3" | "host-3";

/** Tries all frontends; resolves with a result for each client, frontend, family and protocol. */
export async function testFrontends({ cluster, outside }: Trial): Promise<PartOutcome> {
  await createNamespace(cluster);
  const { cases } = await createFrontends(cluster, outside);
  const results = await tryAll(cases);
  await deleteNamespace(cluster);
  return { results, counts: {} };
}

/** Creates all frontends in the namespace of the suite; resolves once their pods are ready. */
export async function createFrontends(cluster: Cluster, outside: Client): Promise<Scene> {
  const server = { app: "server" };
  const pods = {
    "server-1": { node: "node1", labels: { ...server, one: "yes" }, hostPort: HOST_PORT },
    "server-2": { node: "node2", labels: server },
    "client-1": { node: "node1", labels: { app: "client-1" } },
    "client-3": { node: "node3" },
    "host-3": { node: "node3", hostNetwork: true },
  } as const;
  for (const [name, options] of Object.entries(pods)) await create(cluster, podObject(name, options));
  const policies = (policy: "Cluster" | "Local") => ({
    type: "LoadBalancer",
    externalTrafficPolicy: policy,
    internalTrafficPolicy: policy,
  });
  const externalIPs = (addresses: Addresses) => ({ externalIPs: FAMILIES.map((family) => addresses[family]) });
  const spread = await createService(cluster, "spread", server, {
    ...policies("Cluster"),
    ...externalIPs(EXTERNAL.cluster),
  });
  const local = await createService(cluster, "local", server, { ...policies("Local"), ...externalIPs(EXTERNAL.local) });
  const hairpin = await createService(cluster, "hairpin", { one: "yes" }, {});
  const sticky = await createService(cluster, "sticky", server, { sessionAffinity: "ClientIP" });
  const empty = await createService(cluster, "empty", { app: "none" }, policies("Cluster"));
  await balance(cluster, "spread", BALANCER.cluster);
  await balance(cluster, "local", BALANCER.local);
  await balance(cluster, "empty", BALANCER.empty);
  await route();

  const addresses = await addressesOfPods(cluster);
  const client = (name: PodName) =>
    name === "host-3" ? hostClient(addressesOf("node3")) : podClient(addresses.get(name)!);
  const cases = casesOf({ spread, local, hairpin, sticky, empty }, { outside, client });
  return { cases, outside, client, spread, server };
}

/** Routes as a cloud's load balancer does: of policy Cluster to any node, of policy Local to a node with a server. */
async function route(): Promise<void> {
  const routes = [
    ...[BALANCER.cluster, BALANCER.empty, EXTERNAL.cluster].map((to) => ({ to, via: addressesOf("node3") })),
    ...[BALANCER.local, EXTERNAL.local].map((to) => ({ to, via: addressesOf("node1") })),
  ];
  const lines = routes.flatMap(({ to, via }) =>
    FAMILIES.map((family) => `ip route replace ${to[family]} via ${via[family]}`)
  );
  await sh(lines.join("\n"));
}

function casesOf(
  services: Readonly<Record<"spread" | "local" | "hairpin" | "sticky" | "empty", Frontends>>,
  clients: Pick<Scene, "outside" | "client">,
): readonly Case[] {
  const { spread, local, hairpin, sticky, empty } = services, { outside } = clients;
  const [first, near, far, host] = (["server-1", "client-1", "client-3", "host-3"] as const).map(clients.client) as [
    Client,
    Client,
    Client,
    Client,
  ];
  const node1 = addressesOf("node1"), node3 = addressesOf("node3");
  const answers = (by: readonly string[], ...sources: readonly Addresses[]): Expected => ({
    kind: "answers",
    by,
    sources,
  });
  const keeps = (by: readonly string[], { addresses }: Client) => answers(by, addresses);
  const silence: Expected = { kind: "silence" }, refused: Expected = { kind: "refused" };
  const cases: Case[] = [];
  const add = (
    frontend: string,
    address: Addresses,
    port: Case["port"],
    expectations: readonly (readonly [from: string, client: Client, expected: Expected])[],
  ) => {
    for (const [from, client, expected] of expectations) {
      cases.push({ name: `${frontend}, from ${from}`, client, address, port, expected });
    }
  };
  const pod = "a pod", beside = "a pod beside a server", node = "a node", out = "outside";

  add("cluster IP", spread.clusterIPs, SERVICE_PORTS, [
    [beside, near, keeps(SERVERS, near)],
    [pod, far, keeps(SERVERS, far)],
    [node, host, answers(SERVERS, node3)],
  ]);
  add("cluster IP, internal policy Local", local.clusterIPs, SERVICE_PORTS, [
    [beside, near, keeps(["server-1"], near)],
    [pod, far, silence],
    [node, host, silence],
  ]);
  add("cluster IP of the client itself", hairpin.clusterIPs, SERVICE_PORTS, [
    ["the only server", first, answers(["server-1"], bridgeOf("node1"))],
  ]);
  add("cluster IP with affinity", sticky.clusterIPs, SERVICE_PORTS, [
    [pod, far, { kind: "sticks", sources: [far.addresses] }],
  ]);
  add("cluster IP without endpoints", empty.clusterIPs, SERVICE_PORTS, [[pod, far, refused], [node, host, refused]]);

  add("node port of a node with a server", node1, spread.nodePorts, [
    [out, outside, answers(SERVERS, node1, bridgeOf("node1"))],
  ]);
  add("node port of a node without servers", node3, spread.nodePorts, [
    [out, outside, answers(SERVERS, node3)],
    ["a pod of this node", far, answers(SERVERS, node3)],
    ["this node", host, answers(SERVERS, node3)],
  ]);
  add("node port of a node with a server, external policy Local", node1, local.nodePorts, [
    [out, outside, keeps(["server-1"], outside)],
  ]);
  add("node port of a node without servers, external policy Local", node3, local.nodePorts, [
    [out, outside, silence],
    ["a pod of this node", far, keeps(SERVERS, far)],
    ["this node", host, answers(SERVERS, node3)],
  ]);
  add("node port without endpoints", node3, empty.nodePorts, [[out, outside, refused]]);

  const external = { "load balancer IP": BALANCER, "external IP": EXTERNAL };
  for (const [frontend, { cluster, local }] of Object.entries(external)) {
    add(frontend, cluster, SERVICE_PORTS, [
      [out, outside, answers(SERVERS, node3)],
      [pod, far, answers(SERVERS, node3)],
      [node, host, answers(SERVERS, node3)],
    ]);
    add(`${frontend}, external policy Local`, local, SERVICE_PORTS, [
      [out, outside, keeps(["server-1"], outside)],
      [pod, far, keeps(SERVERS, far)],
      [node, host, answers(SERVERS, node3)],
    ]);
  }
  add("load balancer IP without endpoints", BALANCER.empty, SERVICE_PORTS, [[out, outside, refused]]);

  add("host port (portmap)", node1, { tcp: HOST_PORT, udp: HOST_PORT }, [
    [out, outside, keeps(["server-1"], outside)],
    [pod, far, keeps(["server-1"], far)],
    [node, host, answers(["server-1"], node3)],
  ]);
  return cases;
}
