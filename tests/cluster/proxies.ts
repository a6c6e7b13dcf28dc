/** The service proxies under test: each runs on every node of the cluster, one kind after the other. */
import { waitFor } from "../chaos/wait.ts";
import { type Cluster, CLUSTER_CIDR, endOnNode, type NodeName, NODES } from "./cluster.ts";

/** A kind of proxy. */
export interface ProxyKind {
  readonly name: string;
  readonly program: "kube-proxy" | "sluice";
  readonly mode: "iptables" | "nftables";
}

/** The kinds; kube-proxy is the first, because a test that fails with it is not about Sluice. */
export const PROXIES: readonly ProxyKind[] = [
  { name: "kube-proxy", program: "kube-proxy", mode: "iptables" },
  { name: "Sluice nftables", program: "sluice", mode: "nftables" },
  { name: "Sluice iptables", program: "sluice", mode: "iptables" },
];

/** The names of the kinds. */
export const PROXY_NAMES: readonly string[] = PROXIES.map(({ name }) => name);

/** The proxy on all nodes. */
export interface RunningProxy {
  readonly kind: ProxyKind;
  /** Path of its configuration on a node. */
  configOf(node: NodeName): string;
  /** The lines of its logs with a warning or an error. */
  complaints(): readonly string[];
  /** Ends it on all nodes and removes its rules and the connections that it has translated. */
  close(): Promise<void>;
}

const HEALTHY_WITHIN_MS = 60_000;
const COMPLAINT = /^[EWF]\d{4} |"level":"(warn|error)"|\b(WARN|ERROR)\b/;

/** Path of Sluice's executable: SLUICE_BINARY, or that of `compile.sh`. */
export function sluiceBinary(): string {
  return Deno.env.get("SLUICE_BINARY") || new URL("../../dist/sluice", import.meta.url).pathname;
}

/** The path of a kind's program. */
export function programOf(kind: ProxyKind, programs: string): string {
  return kind.program === "sluice" ? sluiceBinary() : `${programs}/kube-proxy`;
}

/** Starts a proxy on all nodes; resolves once it is healthy on all. */
export async function startProxy(cluster: Cluster, kind: ProxyKind): Promise<RunningProxy> {
  const folder = `${cluster.folder}/${kind.name.replace(" ", "-")}`;
  Deno.mkdirSync(folder, { recursive: true });
  const kubeconfig = `${folder}/kubeconfig`;
  // The identity that `sluice kubeconfig` creates has fewer permissions than kube-proxy's.
  if (kind.program === "sluice") await createIdentity(cluster, kubeconfig);
  else Deno.copyFileSync(cluster.plane.kubeconfigOf("kube-proxy"), kubeconfig);
  const configOf = (node: NodeName) => `${folder}/${node}.json`;
  const logs: string[] = [];
  const running = NODES.map((node) => {
    const config = configOf(node), log = `${folder}/${node}.log`;
    Deno.writeTextFileSync(config, JSON.stringify(configuration(node, kind, kubeconfig)));
    logs.push(log);
    const command = [programOf(kind, cluster.programs), "--config", config];
    return cluster.start(node, ["sh", "-c", 'exec "$@" > "$0" 2>&1', log, ...command]);
  });
  for (const node of NODES) {
    await waitFor(`${kind.name} on ${node} is healthy, see ${folder}/${node}.log`, HEALTHY_WITHIN_MS, async () => {
      const asked = await cluster.run(node, ["curl", "-sfo", "/dev/null", "http://127.0.0.1:10256/healthz"]);
      return asked.code === 0;
    }, 200);
  }
  return {
    kind,
    configOf,
    complaints: () =>
      logs.flatMap((log) => Deno.readTextFileSync(log).split("\n").filter((line) => COMPLAINT.test(line))),
    async close() {
      await Promise.all(running.map((child) => endOnNode(child, "SIGTERM")));
      for (const node of NODES) {
        await cluster.run(node, [programOf(kind, cluster.programs), "--cleanup"]);
        await cluster.run(node, ["conntrack", "-F"]);
      }
    },
  };
}

function configuration(node: string, { mode }: ProxyKind, kubeconfig: string): unknown {
  return {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    clientConnection: { kubeconfig },
    hostnameOverride: node,
    mode,
    detectLocalMode: "ClusterCIDR",
    clusterCIDR: CLUSTER_CIDR,
    healthzBindAddress: "0.0.0.0:10256",
    metricsBindAddress: "127.0.0.1:10249",
    conntrack: { maxPerCore: 0, min: 0 },
  };
}

async function createIdentity({ plane }: Cluster, output: string): Promise<void> {
  const options = ["--kubeconfig", plane.kubeconfig, "--token-duration", "24h", "--output", output];
  const command = new Deno.Command(sluiceBinary(), {
    args: ["kubeconfig", ...options],
    stdout: "null",
    stderr: "piped",
  });
  const { success, stderr } = await command.output();
  if (!success) throw new Error(`sluice kubeconfig failed: ${new TextDecoder().decode(stderr)}`);
}
