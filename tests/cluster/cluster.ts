/**
 * A cluster of three nodes on one machine, with a control plane, made of network and process namespaces; start it only inside
 * `isolate`. The namespace of `isolate` is everything around the nodes: it has the control plane, and clients outside the cluster.
 *
 * Each node has a zone of its own, containerd and kubelet; pods are attached to a bridge, with host ports by the portmap plugin.
 */
import { SET_DEFAULTS } from "../../demo/isolate.ts";
import { FAMILIES, type Family } from "../../platform/mod.ts";
import { type ControlPlane, SERVICE_NETWORK, startControlPlane } from "../apiserver/control_plane.ts";
import { waitFor } from "../chaos/wait.ts";

/** Addresses in both families. */
export type Addresses = Readonly<Record<Family, string>>;

/** The names of the nodes. */
export const NODES = ["node1", "node2", "node3"] as const;

/** The name of a node. */
export type NodeName = typeof NODES[number];

/** The machine outside of the cluster. */
export const OUTSIDE: Addresses = { IPv4: "192.168.77.1", IPv6: "fd00:77::1" };

/** The network of all pods. */
export const CLUSTER_CIDR = "10.244.0.0/16,fd00:10:244::/48";

/** A network whose addresses are routed to the nodes, for load balancers and external IPs. */
export const BALANCED: Addresses = { IPv4: "192.168.88", IPv6: "fd00:88:" };

/** The cluster IP of its DNS server. */
export const DNS_ADDRESS = "10.96.0.10";

/** The addresses of a node. */
export function addressesOf(node: NodeName): Addresses {
  const number = numberOf(node);
  return { IPv4: `192.168.77.${10 + number}`, IPv6: `fd00:77::${10 + number}` };
}

/** The address of a node's bridge, which is the source of its masqueraded connections to its own pods. */
export function bridgeOf(node: NodeName): Addresses {
  const number = numberOf(node);
  return { IPv4: `10.244.${number}.1`, IPv6: `fd00:10:244:${number}::1` };
}

function podNetworksOf(node: NodeName): Addresses {
  const number = numberOf(node);
  return { IPv4: `10.244.${number}.0/24`, IPv6: `fd00:10:244:${number}::/64` };
}

function numberOf(node: NodeName): number {
  return NODES.indexOf(node) + 1;
}

/** How pods are attached to their nodes. */
export interface Attachment {
  /** The bridge of a node's pods. */
  readonly bridge: string;
  /** Whether nodes have routes to the pods of the others from the start. */
  readonly isRouted: boolean;
}

/** A running cluster. */
export interface Cluster {
  readonly plane: ControlPlane;
  /** Folder of the programs. */
  readonly programs: string;
  /** Folder of its state and logs. */
  readonly folder: string;
  /** Starts a command in the namespaces of a node. `endOnNode` ends it. */
  start(node: NodeName, command: readonly string[], options?: Deno.CommandOptions): Deno.ChildProcess;
  /** Runs a command in the namespaces of a node; resolves with its exit status and output. */
  run(node: NodeName, command: readonly string[]): Promise<CommandOutcome>;
  /** Ends all processes of a node, removes its rules, connections and bridge, and starts its first process again. */
  reboot(node: NodeName): Promise<void>;
  /** Ends everything. */
  close(): Promise<void>;
}

/** The outcome of a command. */
export interface CommandOutcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const NODES_READY_WITHIN_MS = 300_000;
const NODE_STARTS_WITHIN_MS = 30_000;
const CONTAINERD_SOCKET = "/run/containerd/containerd.sock";

/**
 * Starts a cluster whose nodes are ready.
 * @param programs a folder that tests/cluster/build has filled
 * @param images archive of the images of its pods
 * @param folder empty; not below /run, /var/lib or /var/log, of which nodes have their own
 */
export async function startCluster(
  programs: string,
  images: string,
  pause: string,
  folder: string,
  attachment: Attachment,
): Promise<Cluster> {
  await sh(wiring(attachment));
  const plane = await startControlPlane(folder, {
    server: `${programs}/kube-apiserver`,
    address: OUTSIDE.IPv4,
    users: {
      ...Object.fromEntries(NODES.map((node) => [node, { name: `system:node:${node}`, group: "system:nodes" }])),
      "kube-proxy": { name: "system:kube-proxy", group: "proxies" },
    },
    serverFlags: [
      ...["--client-ca-file", "ca.pem", "--endpoint-reconciler-type", "lease"],
      ...["--kubelet-client-certificate", "kubelet-client.pem", "--kubelet-client-key", "kubelet-client.key"],
      ...["--kubelet-preferred-address-types", "InternalIP"],
    ],
    controllerFlags: [
      ...["--root-ca-file", "ca.pem", "--service-cluster-ip-range", SERVICE_NETWORK],
      ...["--cert-dir", "controller-manager"],
    ],
  });
  plane.start("kube-scheduler", ["--kubeconfig", "kubeconfig", "--leader-elect=false", "--cert-dir", "scheduler"]);
  const nodes = new Map<NodeName, Deno.ChildProcess>();
  const options = { plane, programs, images, pause, folder, attachment };
  for (const node of NODES) {
    await createNode(node, options);
    nodes.set(node, startNode(node, options));
  }
  await becomesReady(plane, NODES, true);

  const within = (node: NodeName, command: readonly string[], options: Deno.CommandOptions) => {
    const process = String(childrenOf(nodes.get(node)!.pid)[0]);
    const args = ["--target", process, "--mount", "--net", "--pid", "--uts", "--", ...command];
    return new Deno.Command("nsenter", { stdin: "null", ...options, args });
  };
  return {
    plane,
    programs,
    folder,
    start: (node, command, options = {}) => within(node, command, options).spawn(),
    async run(node, command) {
      const { code, stdout, stderr } = await within(node, command, { stdout: "piped", stderr: "piped" }).output();
      const text = new TextDecoder();
      return { code, stdout: text.decode(stdout), stderr: text.decode(stderr) };
    },
    async reboot(node) {
      await kill(nodes.get(node)!);
      await sh(`ip netns exec ${node} sh -ec '${forget(attachment)}'`);
      const child = startNode(node, options);
      nodes.set(node, child);
      const hasStarted = () => childrenOf(child.pid).length > 0;
      await waitFor(`${node} has started`, NODE_STARTS_WITHIN_MS, hasStarted);
    },
    async close() {
      for (const child of nodes.values()) await kill(child);
      await plane.close();
      await sh(REMOVE_CONTROL_GROUPS);
    },
  };
}

/** Resolves once the API server calls all these nodes ready, or none. */
export async function becomesReady(plane: ControlPlane, nodes: readonly NodeName[], isReady: boolean): Promise<void> {
  await waitFor(`${nodes} are ${isReady ? "" : "not "}ready`, NODES_READY_WITHIN_MS, async () => {
    const objects = await Promise.all(nodes.map((node) => plane.request("GET", `/api/v1/nodes/${node}`)));
    return objects.every(({ body }) => {
      const conditions = (body as NodeObject).status?.conditions ?? [];
      return conditions.some(({ type, status }) => type === "Ready" && status === "True") === isReady;
    });
  }, 500);
}

/** Removes what the kernel forgets in a reboot. */
function forget({ bridge }: Attachment): string {
  return `nft flush ruleset; conntrack -F; [ ! -e /sys/class/net/${bridge} ] || ip link delete ${bridge}`;
}

async function kill(child: Deno.ChildProcess): Promise<void> {
  child.kill("SIGKILL");
  await child.status;
}

interface Condition {
  readonly type: string;
  readonly status: string;
}

interface NodeObject {
  readonly status?: { readonly conditions?: readonly Condition[] };
}

/** Sends a signal to a command of `Cluster.start`, and waits for its end. */
export async function endOnNode(child: Deno.ChildProcess, signal: Deno.Signal): Promise<void> {
  // nsenter waits for the command, which it does not pass signals on to.
  for (const pid of childrenOf(child.pid)) Deno.kill(pid, signal);
  await child.status;
}

function childrenOf(pid: number): readonly number[] {
  const text = Deno.readTextFileSync(`/proc/${pid}/task/${pid}/children`);
  return text.split(" ").filter((word) => word !== "").map(Number);
}

interface NodeOptions {
  readonly plane: ControlPlane;
  readonly programs: string;
  readonly images: string;
  readonly pause: string;
  readonly folder: string;
  readonly attachment: Attachment;
}

/** The file of a node's CNI configuration. */
export function cniFileOf({ folder }: Pick<Cluster, "folder">, node: NodeName): string {
  return `${folder}/${node}/cni/10-bridge.conflist`;
}

/** Creates a node's object and its files. */
async function createNode(node: NodeName, options: NodeOptions): Promise<void> {
  const { plane, programs, pause } = options;
  const folder = `${options.folder}/${node}`, { IPv4, IPv6 } = podNetworksOf(node);
  const object = {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name: node,
      labels: { "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": `zone${numberOf(node)}` },
    },
    spec: { podCIDR: IPv4, podCIDRs: [IPv4, IPv6] },
  };
  const { status, body } = await plane.create(object);
  if (status !== 201) throw new Error(`cannot create the Node ${node}: ${body.message}`);
  Deno.mkdirSync(`${folder}/cni`, { recursive: true });
  const files = {
    "containerd.toml": containerdConfiguration(folder, programs, pause),
    "kubelet.yaml": JSON.stringify(kubeletConfiguration(options.folder, folder)),
    "kubelet.kubeconfig": Deno.readTextFileSync(plane.kubeconfigOf(node)),
    "addresses": Object.values(addressesOf(node)).join(),
    "resolv.conf": `nameserver ${OUTSIDE.IPv4}\n`,
  };
  Deno.writeTextFileSync(
    cniFileOf(options, node),
    JSON.stringify(cniConfiguration(podNetworksOf(node), options.attachment)),
  );
  for (const [name, text] of Object.entries(files)) Deno.writeTextFileSync(`${folder}/${name}`, text);
}

function startNode(node: NodeName, { programs, images, folder }: NodeOptions): Deno.ChildProcess {
  const script = new URL("./node", import.meta.url).pathname;
  const namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"];
  return new Deno.Command("nsenter", {
    args: [`--net=/run/netns/${node}`, "unshare", ...namespaces, script, node, programs, `${folder}/${node}`, images],
    stdin: "null",
  }).spawn();
}

function cniConfiguration({ IPv4, IPv6 }: Addresses, { bridge }: Attachment): unknown {
  return {
    cniVersion: "1.0.0",
    name: "cluster",
    plugins: [
      {
        type: "bridge",
        bridge,
        isGateway: true,
        isDefaultGateway: true,
        hairpinMode: true,
        ipam: { type: "host-local", dataDir: "/run/cni-ipam", ranges: [[{ subnet: IPv4 }], [{ subnet: IPv6 }]] },
      },
      { type: "portmap", capabilities: { portMappings: true } },
    ],
  };
}

function containerdConfiguration(folder: string, programs: string, pause: string): string {
  return `version = 3
root = "${folder}/containerd"
state = "/run/containerd"
[grpc]
address = "${CONTAINERD_SOCKET}"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "${pause}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["${programs}/cni"]
conf_dir = "${folder}/cni"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
`;
}

function kubeletConfiguration(control: string, folder: string): unknown {
  const nothing = "1Mi";
  return {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: `${control}/ca.pem` },
    },
    authorization: { mode: "Webhook" },
    containerRuntimeEndpoint: `unix://${CONTAINERD_SOCKET}`,
    cgroupDriver: "cgroupfs",
    cgroupsPerQOS: false,
    enforceNodeAllocatable: [],
    failCgroupV1: false,
    failSwapOn: false,
    clusterDNS: [DNS_ADDRESS],
    clusterDomain: "cluster.local",
    resolvConf: `${folder}/resolv.conf`,
    evictionHard: { "memory.available": nothing, "nodefs.available": nothing, "imagefs.available": nothing },
    imageGCHighThresholdPercent: 100,
    maxPods: 200,
  };
}

/** The network: a bridge outside, to which all nodes are attached, and routes to the pods of each. */
function wiring({ isRouted }: Attachment): string {
  const forward = "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1";
  const lines = [
    "ip link add br0 type bridge",
    "ip link set br0 up",
    `ip address add ${OUTSIDE.IPv4}/24 dev br0`,
    `ip address add ${OUTSIDE.IPv6}/64 dev br0 nodad`,
    forward,
  ];
  for (const node of NODES) {
    const { IPv4, IPv6 } = addressesOf(node);
    lines.push(
      `ip netns add ${node}`,
      `ip -n ${node} link set lo up`,
      `ip netns exec ${node} ${SET_DEFAULTS}`,
      `ip link add ${node} type veth peer name eth0 netns ${node}`,
      `ip link set ${node} master br0 up`,
      `ip -n ${node} address add ${IPv4}/24 dev eth0`,
      `ip -n ${node} address add ${IPv6}/64 dev eth0 nodad`,
      `ip -n ${node} link set eth0 up`,
      // All refusals at the same time are seen.
      `ip netns exec ${node} sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0`,
      `ip netns exec ${node} ${forward} net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1`,
      `ip -n ${node} route add default via ${OUTSIDE.IPv4}`,
      `ip -n ${node} route add default via ${OUTSIDE.IPv6}`,
    );
  }
  const places = ["", ...(isRouted ? NODES : []).map((node) => `-n ${node}`)];
  for (const node of NODES) {
    const pods = podNetworksOf(node), via = addressesOf(node);
    for (const place of places.filter((place) => !place.endsWith(node))) {
      for (const family of FAMILIES) lines.push(`ip ${place} route add ${pods[family]} via ${via[family]}`);
    }
  }
  return lines.join("\n");
}

/** containerd leaves the control groups of killed containers. */
const REMOVE_CONTROL_GROUPS =
  "for root in /sys/fs/cgroup/k8s.io /sys/fs/cgroup/*/k8s.io; do [ ! -d $root ] || find $root -depth -type d -exec rmdir {} + || :; done";

/** Runs a script outside the nodes; throws with its error output if it fails. */
export async function sh(script: string): Promise<void> {
  const { success, stderr } = await new Deno.Command("sh", { args: ["-ec", script], stdin: "null" }).output();
  if (!success) throw new Error(`${script}\n${new TextDecoder().decode(stderr)}`);
}
