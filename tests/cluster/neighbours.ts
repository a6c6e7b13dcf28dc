/** Other programs that change a node's network: all frontends beside each of them, and what it is there for. */
import type { Result } from "../suite.ts";
import { FAMILIES } from "../../platform/mod.ts";
import { testAnswers } from "./answers.ts";
import { type Addresses, addressesOf, type Cluster, endOnNode, type NodeName, NODES, OUTSIDE, sh } from "./cluster.ts";
import { type Case, type Expected, tryAll } from "./connections.ts";
import { createFrontends, type Scene } from "./frontends.ts";
import { startKubeRouter } from "./kube_router.ts";
import { startMetalLB, testMetalLB } from "./metallb.ts";
import {
  balance,
  create,
  createNamespace,
  createService,
  deleteNamespace,
  type Frontends,
  NAMESPACE,
  POD_PORT,
  type Protocol,
} from "./pods.ts";
import type { PartOutcome, Trial } from "./results.ts";
import { addSidecars, testSidecars, throughSidecars } from "./sidecar.ts";

interface Neighbour {
  readonly name: string;
  /** Installs it on the nodes; resolves with the function that removes it. */
  install(cluster: Cluster, scene: Scene): Promise<() => Promise<void>>;
  /** Tries what it is there for. */
  test(cluster: Cluster, scene: Scene): readonly Result[] | Promise<readonly Result[]>;
  /** The expected outcome of a case beside it, if not the case's own. */
  expectedOf?(one: Case, protocol: Protocol, scene: Scene): Expected;
}

const PORTS = { tcp: 80, udp: 80 };
/** An address in the nodes' own network. */
const MOVING: Addresses = { IPv4: "192.168.77.100", IPv6: "fd00:77::100" };

const NEIGHBOURS: readonly Neighbour[] = [
  { name: "kube-router as policy engine", install: startPolicies, test: testPolicies },
  { name: "a node's own server at a cluster IP (NOTRACK)", install: shadow, test: testShadow },
  { name: "a virtual IP that moves", install: () => Promise.resolve(() => removeMoving()), test: testMoving },
  { name: "a service mesh's sidecar", install: addSidecars, test: testSidecars, expectedOf: throughSidecars },
  { name: "MetalLB in L2 mode", install: startMetalLB, test: testMetalLB },
];

/** Tries all neighbours; resolves with the results of all frontends beside each, and of what it is there for. */
export async function testNeighbours(trial: Trial): Promise<PartOutcome> {
  const { cluster, outside, proxy, focus = "" } = trial;
  await createNamespace(cluster);
  const scene = await createFrontends(cluster, outside);
  const results: Result[] = [];
  for (const { name, install, test, expectedOf } of NEIGHBOURS.filter(({ name }) => new RegExp(focus).test(name))) {
    const add = (when: string, some: readonly Result[]) =>
      results.push(...some.map((one) => ({ ...one, name: `${name}${when}: ${one.name}` })));
    const beside = () => tryAll(scene.cases, expectedOf && ((one, protocol) => expectedOf(one, protocol, scene)));
    const remove = await install(cluster, scene);
    try {
      add(", installed after the proxy", await beside());
      add("", await test(cluster, scene));
      add("", (await testAnswers(trial)).results);
      await proxy.close();
      for (const node of NODES) proxy.start(node);
      await proxy.healthy();
      add(", installed before the proxy", await beside());
    } finally {
      await remove();
    }
    add(", removed", await tryAll(scene.cases));
  }
  await deleteNamespace(cluster);
  return { results, counts: {} };
}

function answers(by: readonly string[], ...sources: readonly Addresses[]): Expected {
  return { kind: "answers", by, sources };
}

const BOTH = ["server-1", "server-2"];

/** Starts kube-router on all nodes as the engine of policies only. */
async function startPolicies(cluster: Cluster): Promise<() => Promise<void>> {
  const flags = ["--run-firewall=true", "--run-router=false", "--enable-cni=false"];
  const running = await Promise.all(NODES.map((node) => startKubeRouter(cluster, node, flags)));
  return async () => {
    await Promise.all(running.map((child) => endOnNode(child, "SIGTERM")));
    for (const node of NODES) await sh(`ip netns exec ${node} sh -ec '${FORGET_KUBE_ROUTER}'`);
  };
}

/** Removes the rules and sets of kube-router, which `kube-router --cleanup-config` of 2.1.0 leaves behind. */
const FORGET_KUBE_ROUTER = ["iptables", "ip6tables"]
  .map((tool) => `${tool}-save -t filter | grep -vE "KUBE-(ROUTER|POD-FW|NWPLCY)" | ${tool}-restore -w`)
  .concat("ipset destroy").join("\n");

/** A policy that allows one pod and the client outside. Denials are not tried: kube-router 2.1.0 aborts its syncs at random. */
async function testPolicies(cluster: Cluster, { client, outside, spread, server }: Scene): Promise<readonly Result[]> {
  const allowed = client("client-1"), other = client("client-3");
  const entry = await createLocal(cluster, server);
  await sh(routes(MOVING, "node1"));
  await create(cluster, policy("by-pod", server, POD_PORT));
  const byPod = await tryAll([
    {
      name: "cluster IP, from a pod that the policy allows",
      address: spread.clusterIPs,
      port: PORTS,
      client: allowed,
      expected: answers(BOTH, allowed.addresses),
    },
    {
      name: "straight to a server, from a pod that it allows",
      address: client("server-2").addresses,
      port: { tcp: POD_PORT, udp: POD_PORT },
      client: allowed,
      expected: answers(["server-2"], allowed.addresses),
    },
    {
      name: "load balancer IP, policy Local, from an address that it allows",
      address: entry,
      port: PORTS,
      client: outside,
      expected: answers(["server-1"], outside.addresses),
    },
  ]);
  await remove(cluster, POLICIES, "by-pod");
  const open = await tryAll([{
    name: "cluster IP, without a policy",
    address: spread.clusterIPs,
    port: PORTS,
    client: other,
    expected: answers(BOTH, other.addresses),
  }]);
  await remove(cluster, SERVICES, "entry");
  await sh(unroute(MOVING));
  return [...byPod, ...open];
}

const SERVICES = `/api/v1/namespaces/${NAMESPACE}/services`;
const POLICIES = `/apis/networking.k8s.io/v1/namespaces/${NAMESPACE}/networkpolicies`;

async function remove({ plane }: Cluster, collection: string, name: string): Promise<void> {
  const { status, body } = await plane.request("DELETE", `${collection}/${name}`);
  if (status !== 200) throw new Error(`cannot delete ${collection}/${name}: ${body.message}`);
}

/** Creates a Service of policy Local at the moving address; resolves with that address. */
async function createLocal(cluster: Cluster, server: Scene["server"]): Promise<Addresses> {
  await createService(cluster, "entry", server, { type: "LoadBalancer", externalTrafficPolicy: "Local" });
  await balance(cluster, "entry", MOVING);
  return MOVING;
}

function routes(to: Addresses, node: NodeName): string {
  const via = addressesOf(node);
  return FAMILIES.map((family) => `ip route replace ${to[family]} via ${via[family]}`).join("\n");
}

function unroute(to: Addresses): string {
  return FAMILIES.map((family) => `ip route delete ${to[family]}`).join("\n");
}

/** Allows connections to a port of the servers from one pod and from outside. */
function policy(name: string, server: Scene["server"], port: number): unknown {
  const peers = FAMILIES.map((family) => ({ ipBlock: { cidr: `${OUTSIDE[family]}/${family === "IPv4" ? 32 : 128}` } }));
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name, namespace: NAMESPACE },
    spec: {
      podSelector: { matchLabels: server },
      policyTypes: ["Ingress"],
      ingress: [{
        from: [{ podSelector: { matchLabels: { app: "client-1" } } }, ...peers],
        ports: ["TCP", "UDP"].map((protocol) => ({ protocol, port })),
      }],
    },
  };
}

/** A node's server at the address of a Service. */
const SHADOWED = "shadowed", SHADOWING: NodeName = "node3", LINK = "nodelocal";
let shadowed: Frontends | undefined;

/** Gives a node the cluster IPs of a Service and a server there, without connection tracking, as NodeLocal DNSCache does. */
async function shadow(cluster: Cluster, { server }: Scene): Promise<() => Promise<void>> {
  shadowed = await createService(cluster, SHADOWED, server, {});
  const addresses = FAMILIES.map((family) => shadowed!.clusterIPs[family]);
  const onNode = (script: string) => sh(`ip netns exec ${SHADOWING} sh -ec '${script}'`);
  const rules = (action: "-I" | "-D") =>
    addresses.flatMap((address) => {
      const tool = `${address.includes(":") ? "ip6tables" : "iptables"} -w`;
      return ["tcp", "udp"].flatMap((protocol) => [
        `${tool} -t raw ${action} PREROUTING -p ${protocol} -d ${address} --dport 80 -j NOTRACK`,
        `${tool} -t raw ${action} OUTPUT -p ${protocol} -d ${address} --dport 80 -j NOTRACK`,
        `${tool} -t raw ${action} OUTPUT -p ${protocol} -s ${address} --sport 80 -j NOTRACK`,
        `${tool} ${action} INPUT -p ${protocol} -d ${address} --dport 80 -j ACCEPT`,
        `${tool} ${action} OUTPUT -p ${protocol} -s ${address} --sport 80 -j ACCEPT`,
      ]);
    }).join("\n");
  const assigned = addresses.map((address) =>
    `ip address add ${address} dev ${LINK} ${address.includes(":") ? "nodad" : ""}`
  );
  await onNode([`ip link add ${LINK} type bridge`, `ip link set ${LINK} up`, ...assigned, rules("-I")].join("\n"));
  const listening = [`--http-port=80`, `--udp-port=80`, `--udp-listen-addresses=${addresses.join()}`];
  const child = cluster.start(SHADOWING, [`${cluster.programs}/agnhost`, "netexec", ...listening], {
    stdout: "null",
    stderr: "null",
  });
  return async () => {
    await endOnNode(child, "SIGTERM");
    await onNode(`${rules("-D")}\nip link delete ${LINK}`);
    await remove(cluster, SERVICES, SHADOWED);
  };
}

async function testShadow(_: Cluster, { client }: Scene): Promise<readonly Result[]> {
  const { clusterIPs } = shadowed!, near = client("client-3"), far = client("client-1"), host = client("host-3");
  const at = { address: clusterIPs, port: PORTS };
  return await tryAll([
    { ...at, name: "from a pod of this node", client: near, expected: answers([SHADOWING], near.addresses) },
    { ...at, name: "from this node", client: host, expected: answers([SHADOWING], clusterIPs) },
    { ...at, name: "from a pod of another node", client: far, expected: answers(BOTH, far.addresses) },
  ]);
}

/** Moves a load balancer's address, of policy Local, from one node to another, which both have a server. */
async function testMoving(cluster: Cluster, { outside, client, server }: Scene): Promise<readonly Result[]> {
  const address = await createLocal(cluster, server), far = client("client-3");
  const results: Result[] = [];
  for (const [node, by] of [["node1", "server-1"], ["node2", "server-2"]] as const) {
    await removeMoving();
    await sh(
      FAMILIES.map((family) =>
        `ip -n ${node} address add ${address[family]} dev eth0 ${family === "IPv6" ? "nodad" : ""}`
      ).join("\n"),
    );
    results.push(
      ...await tryAll([
        {
          name: `at ${node}, from outside`,
          address,
          port: PORTS,
          client: outside,
          expected: answers([by], outside.addresses),
        },
        { name: `at ${node}, from a pod`, address, port: PORTS, client: far, expected: answers(BOTH, far.addresses) },
      ]),
    );
  }
  await remove(cluster, SERVICES, "entry");
  return results;
}

/** Takes the moving address from all nodes, and makes the client outside ask for its owner again. */
async function removeMoving(): Promise<void> {
  const lines = NODES.flatMap((node) =>
    FAMILIES.map((family) =>
      `ip -n ${node} address delete ${MOVING[family]}/${family === "IPv4" ? 32 : 128} dev eth0 2> /dev/null || :`
    )
  );
  await sh(
    [...lines, ...FAMILIES.map((family) => `ip neighbour delete ${MOVING[family]} dev br0 2> /dev/null || :`)].join(
      "\n",
    ),
  );
}
