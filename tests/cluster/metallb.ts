/** MetalLB in L2 mode on the cluster: its controller and speakers as pods, made of the programs and the manifest of its module. */
import { FAMILIES, type Family } from "../../platform/mod.ts";
import { SERVER_NAME } from "../apiserver/control_plane.ts";
import type { Result } from "../suite.ts";
import { waitFor } from "../chaos/wait.ts";
import { type Addresses, addressesOf, bridgeOf, type Cluster, type NodeName, NODES } from "./cluster.ts";
import { type Case, tryAll } from "./connections.ts";
import type { Scene } from "./frontends.ts";
import { AGNHOST } from "./images.ts";
import { addressesOfPods, type Client, create, createService, dial, NAMESPACE, podObject } from "./pods.ts";

const METALLB = "metallb-system";
/** MetalLB takes care of the Services of this class only, since the suite gives the others their addresses itself. */
const CLASS = "cluster.test/metallb";
const POOL = ["192.168.77.200-192.168.77.209", "fd00:77::200-fd00:77::209"];
const IN_POOL: Readonly<Record<Family, RegExp>> = { IPv4: /^192\.168\.77\.20\d$/, IPv6: /^fd00:77::20\d$/ };
const READY_WITHIN = "--timeout=180s";
const ASSIGNED_WITHIN_MS = 60_000, MOVED_WITHIN_MS = 60_000;
/** The servers of its Services, one on each of two nodes. */
const SERVERS = { "pooled-1": "node1", "pooled-2": "node2" } as const;
const LABELS = { app: "pooled" };
/** Takes a node from those that announce addresses: https://kubernetes.io/docs/reference/labels-annotations-taints/ */
const EXCLUDED = "node.kubernetes.io/exclude-from-external-load-balancers";

const POLICIES = ["Cluster", "Local"] as const;
type Policy = typeof POLICIES[number];
/** The cluster IP of the API server. */
const API_ADDRESS = "10.96.0.1";

/** Installs MetalLB with a pool of addresses in the nodes' network; resolves with the function that removes it. */
export async function startMetalLB(cluster: Cluster): Promise<() => Promise<void>> {
  const manifest = `--filename=${cluster.programs}/metallb-native.yaml`;
  const documents = await kubectl(cluster, ["create", "--dry-run=client", "--output=json", manifest]);
  const items = documents.split(/^(?=\{)/m).map((text) => JSON.parse(text) as Manifest);
  const objects = items.flatMap((item) => adapted(item, cluster.programs));
  const file = `${cluster.folder}/metallb.json`;
  Deno.writeTextFileSync(file, JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }));
  await kubectl(cluster, ["create", `--filename=${file}`]);
  await kubectl(cluster, ["wait", "--for=condition=Established", "crd", "--all", READY_WITHIN]);
  for (const workload of ["deployment/controller", "daemonset/speaker"]) {
    await kubectl(cluster, ["rollout", "status", `--namespace=${METALLB}`, workload, READY_WITHIN]);
  }
  const metadata = { name: "pool", namespace: METALLB };
  await create(cluster, {
    apiVersion: "metallb.io/v1beta1",
    kind: "IPAddressPool",
    metadata,
    spec: { addresses: POOL },
  });
  await create(cluster, { apiVersion: "metallb.io/v1beta1", kind: "L2Advertisement", metadata });
  return async () => {
    await kubectl(cluster, ["delete", "--wait", `--filename=${file}`]);
  };
}

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec?: { readonly template: { readonly spec: PodSpec } };
}

interface PodSpec {
  readonly containers: readonly {
    readonly args: readonly string[];
    readonly env: readonly unknown[];
    readonly volumeMounts: readonly unknown[];
  }[];
  readonly volumes: readonly unknown[];
}

/** An object of the manifest, with programs of the machine, for its class, and without webhooks, which the API server does not reach. */
function adapted(object: Manifest, programs: string): readonly unknown[] {
  const { kind, metadata, spec } = object;
  if (kind === "ValidatingWebhookConfiguration") return [];
  if (kind !== "Deployment" && kind !== "DaemonSet") return [object];
  const { containers: [container], ...pod } = spec!.template.spec;
  const name = "programs", path = `/${name}`;
  const changed = {
    ...container,
    image: AGNHOST.name,
    imagePullPolicy: "Never",
    command: [`${path}/metallb-${metadata.name}`],
    args: [...container!.args, `--lb-class=${CLASS}`, ...kind === "Deployment" ? ["--webhook-mode=disabled"] : []],
    env: [...container!.env, { name: "KUBERNETES_SERVICE_HOST", value: SERVER_NAME }],
    volumeMounts: [...container!.volumeMounts, { name, mountPath: path, readOnly: true }],
  };
  // The API server's certificate for connections through its Service is of this name.
  const hostAliases = [{ ip: API_ADDRESS, hostnames: [SERVER_NAME] }];
  const volumes = [...pod.volumes, { name, hostPath: { path: programs } }];
  return [{
    ...object,
    spec: { ...spec, template: { ...spec!.template, spec: { ...pod, containers: [changed], volumes, hostAliases } } },
  }];
}

async function kubectl({ programs, plane }: Cluster, args: readonly string[]): Promise<string> {
  const command = new Deno.Command(`${programs}/kubectl`, { args: [`--kubeconfig=${plane.kubeconfig}`, ...args] });
  const { success, stdout, stderr } = await command.output();
  const text = new TextDecoder();
  if (!success) throw new Error(`kubectl ${args.join(" ")}: ${text.decode(stderr)}`);
  return text.decode(stdout);
}

/** The name of the Service with an external traffic policy. */
function serviceOf(policy: Policy): string {
  return `pooled-${policy.toLowerCase()}`;
}

/** Tries addresses of both policies at the node that announces them, and at another one once that is drained. */
export async function testMetalLB(cluster: Cluster, { outside, client }: Scene): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const [name, node] of Object.entries(SERVERS)) await create(cluster, podObject(name, { node, labels: LABELS }));
  await addressesOfPods(cluster);
  for (const policy of POLICIES) {
    const service = serviceOf(policy), title = `load balancer IP, policy ${policy}`;
    await createService(cluster, service, LABELS, {
      type: "LoadBalancer",
      externalTrafficPolicy: policy,
      loadBalancerClass: CLASS,
    });
    const address = await assignedTo(cluster, service);
    for (const family of FAMILIES) {
      const name = `${title}: an address of the pool (${family})`;
      results.push({ name, unit: name, passed: IN_POOL[family].test(address[family]), tookMs: 0 });
    }
    const first = await announcerOf(cluster, outside, address);
    const attempt = async (when: string, node: NodeName, all: readonly string[]) => {
      const far = client("client-3"), local = all.filter((name) => SERVERS[name as keyof typeof SERVERS] === node);
      const tried = policy === "Local"
        ? [["outside", outside, local, [outside.addresses]], ["a pod", far, all, [far.addresses]]] as const
        : [["outside", outside, all, [addressesOf(node), bridgeOf(node)]], ["a pod", far, all, [
          addressesOf("node3"),
        ]]] as const;
      const cases = tried.map(([from, client, by, sources]): Case => ({
        name: `${title}, ${when}, from ${from}`,
        address,
        port: { tcp: 80, udp: 80 },
        client,
        expected: { kind: "answers", by, sources },
      }));
      results.push(...await tryAll(cases));
    };
    await attempt("where it is announced first", first, Object.keys(SERVERS));
    const undrain = await drain(cluster, first);
    const second = await announcerOf(cluster, outside, address, first);
    const left = Object.entries(SERVERS).filter(([, node]) => node !== first).map(([name]) => name);
    await attempt("after its node is drained", second, left);
    await undrain();
  }
  for (const name of Object.keys(SERVERS)) await deletePod(cluster, name);
  // Not earlier: another Service would get the address, and a flow to it that the proxy still knows.
  for (const policy of POLICIES) {
    await cluster.plane.request("DELETE", `/api/v1/namespaces/${NAMESPACE}/services/${serviceOf(policy)}`);
  }
  return results;
}

async function assignedTo({ plane }: Cluster, service: string): Promise<Addresses> {
  let ips: readonly string[] = [];
  await waitFor(`MetalLB assigns addresses to ${service}`, ASSIGNED_WITHIN_MS, async () => {
    const { body } = await plane.request("GET", `/api/v1/namespaces/${NAMESPACE}/services/${service}`);
    ips = (body.status.loadBalancer.ingress ?? []).map(({ ip }: { readonly ip: string }) => ip);
    return ips.length === FAMILIES.length;
  }, 200);
  return { IPv4: ips.find((ip) => !ip.includes(":"))!, IPv6: ips.find((ip) => ip.includes(":"))! };
}

/** The node, other than `former`, whose hardware address the machine outside has learnt for an address of both families. */
async function announcerOf(
  cluster: Cluster,
  outside: Client,
  address: Addresses,
  former?: NodeName,
): Promise<NodeName> {
  const nodes = new Map<string, NodeName>();
  for (const node of NODES) {
    const [link] = JSON.parse((await cluster.run(node, ["ip", "-json", "link", "show", "eth0"])).stdout);
    nodes.set(link.address, node);
  }
  let found: readonly (NodeName | undefined)[] = [];
  const what = former === undefined ? "is announced" : `is no longer announced by ${former}`;
  await waitFor(`${address.IPv4} ${what}, and ${address.IPv6}`, MOVED_WITHIN_MS, async () => {
    found = await Promise.all(FAMILIES.map(async (family) => {
      await dial(outside, { address: address[family], port: 80, protocol: "tcp" }, "hostname", 1);
      const args = ["-json", "neighbour", "show", address[family], "dev", "br0"];
      const [entry] = JSON.parse(new TextDecoder().decode((await new Deno.Command("ip", { args }).output()).stdout));
      return nodes.get(entry?.lladdr);
    }));
    return found[0] !== undefined && found[0] !== former && found.every((node) => node === found[0]);
  }, 500);
  return found[0]!;
}

/** Drains a node, and has it announce nothing; resolves with the function that makes it as it was. */
async function drain(cluster: Cluster, node: NodeName): Promise<() => Promise<void>> {
  const patch = (unschedulable: boolean, label: string | null) =>
    cluster.plane.request("PATCH", `/api/v1/nodes/${node}`, {
      metadata: { labels: { [EXCLUDED]: label } },
      spec: { unschedulable },
    });
  const evicted = Object.entries(SERVERS).filter(([, of]) => of === node).map(([name]) => name);
  await patch(true, "");
  for (const name of evicted) await deletePod(cluster, name);
  return async () => {
    await patch(false, null);
    for (const name of evicted) await create(cluster, podObject(name, { node, labels: LABELS }));
    await addressesOfPods(cluster);
  };
}

async function deletePod({ plane }: Cluster, name: string): Promise<void> {
  const path = `/api/v1/namespaces/${NAMESPACE}/pods/${name}`;
  await plane.request("DELETE", path);
  await waitFor(`${name} is gone`, MOVED_WITHIN_MS, async () => (await plane.request("GET", path)).status === 404, 200);
}
