/** The service proxies under test: each runs on every node of the cluster, one kind after the other. */
import { parse } from "yaml";
import { waitFor } from "../chaos/wait.ts";
import { type Cluster, CLUSTER_CIDR, endOnNode, type NodeName, NODES } from "./cluster.ts";

/** A proxy mode. */
export type Mode = "iptables" | "nftables";

/** A kind of proxy. */
export interface ProxyKind {
  readonly name: string;
  readonly program: "kube-proxy" | "sluice";
  readonly mode: Mode;
}

/** The kinds; kube-proxy is the first, because a test that fails with it is not about Sluice. */
export const PROXIES: readonly ProxyKind[] = [
  { name: "kube-proxy", program: "kube-proxy", mode: "iptables" },
  { name: "Sluice nftables", program: "sluice", mode: "nftables" },
  { name: "Sluice iptables", program: "sluice", mode: "iptables" },
];

/** The names of the kinds. */
export const PROXY_NAMES: readonly string[] = PROXIES.map(({ name }) => name);

/** The place of the certificates with which a proxy verifies the API server. */
export type TrustPlace = "file" | "kubeconfig";

/** The proxy on all nodes. */
export interface RunningProxy {
  readonly kind: ProxyKind;
  /** Path of its configuration on a node. */
  configOf(node: NodeName): string;
  /** Writes the configuration of all nodes again, with a mode. Sluice follows, kube-proxy ends. */
  configure(mode: Mode): void;
  /** Replaces the authorities (PEM) that it trusts: in the file that its kubeconfig names, or by another kubeconfig. */
  trust(authorities: readonly string[], place: TrustPlace): void;
  /** Starts it on a node, unless it runs there. */
  start(node: NodeName): void;
  /** Resolves once it is healthy on all nodes, in its configured mode. */
  healthy(): Promise<void>;
  /** Ends it on these nodes, by default all, where it runs; its rules stay. */
  stop(nodes?: readonly NodeName[]): Promise<void>;
  /** The lines of its logs with a warning or an error. */
  complaints(): readonly string[];
  /** Ends it on all nodes and removes its rules, the connections that it has translated, and the state that it keeps. */
  close(): Promise<void>;
}

const HEALTHY_WITHIN_MS = 60_000;
/** Arguments of curl that succeed on a node with a healthy proxy; the last answer is the proxy's mode. */
const HEALTH = ["--fail-early", "http://127.0.0.1:10256/healthz", "http://127.0.0.1:10249/proxyMode"];
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
  const proxy = await installProxy(cluster, kind);
  for (const node of NODES) proxy.start(node);
  await proxy.healthy();
  return proxy;
}

/** Writes the configuration of a proxy for all nodes, without starting it. */
export async function installProxy(cluster: Cluster, kind: ProxyKind): Promise<RunningProxy> {
  const folder = `${cluster.folder}/${kind.name.replace(" ", "-")}`;
  Deno.mkdirSync(folder, { recursive: true });
  const kubeconfig = `${folder}/kubeconfig`;
  // The identity that `sluice kubeconfig` creates has fewer permissions than kube-proxy's.
  const identity = kind.program === "sluice"
    ? await createIdentity(cluster, `${folder}/identity`)
    : cluster.plane.kubeconfigOf("kube-proxy");
  const original = parse(Deno.readTextFileSync(identity)) as Kubeconfig, authorityFile = `${folder}/ca.pem`;
  Deno.writeTextFileSync(kubeconfig, kubeconfigWith(original, { "certificate-authority": authorityFile }));
  const configOf = (node: NodeName) => `${folder}/${node}.json`;
  const logOf = (node: NodeName) => `${folder}/${node}.log`;
  const stateOf = (node: NodeName) => `${folder}/${node}-state`;
  const commandOf = (node: NodeName) => {
    const keepsState = kind.program === "sluice" ? ["--state-directory", stateOf(node)] : [];
    return [programOf(kind, cluster.programs), "--config", configOf(node), ...keepsState];
  };
  const running = new Map<NodeName, Deno.ChildProcess>();
  let configured = kind.mode;
  const proxy: RunningProxy = {
    kind,
    configOf,
    configure(mode) {
      configured = mode;
      for (const node of NODES) {
        Deno.writeTextFileSync(configOf(node), JSON.stringify(configuration(node, mode, kubeconfig)));
      }
    },
    trust(authorities, place) {
      const [file, text] = place === "file"
        ? [authorityFile, authorities.join("")]
        : [kubeconfig, kubeconfigWith(original, { "certificate-authority-data": btoa(authorities.join("")) })];
      Deno.writeTextFileSync(`${file}.new`, text);
      Deno.renameSync(`${file}.new`, file);
    },
    start(node) {
      if (running.has(node)) return;
      const child = cluster.start(node, ["sh", "-c", 'exec "$@" >> "$0" 2>&1', logOf(node), ...commandOf(node)]);
      running.set(node, child);
      void child.status.then(() => running.delete(node));
    },
    async healthy() {
      for (const node of NODES) {
        await waitFor(`${kind.name} on ${node} is healthy, see ${logOf(node)}`, HEALTHY_WITHIN_MS, async () => {
          const asked = await cluster.run(node, ["curl", "-sf", ...HEALTH]);
          return asked.code === 0 && asked.stdout.endsWith(configured);
        }, 200);
      }
    },
    async stop(nodes = NODES) {
      const children = nodes.flatMap((node) => running.get(node) ?? []);
      await Promise.all(children.map((child) => endOnNode(child, "SIGTERM")));
    },
    complaints: () =>
      NODES.flatMap((node) => Deno.readTextFileSync(logOf(node)).split("\n").filter((line) => COMPLAINT.test(line))),
    async close() {
      await proxy.stop();
      for (const node of NODES) {
        await cluster.run(node, [programOf(kind, cluster.programs), "--cleanup"]);
        await cluster.run(node, ["conntrack", "-F"]);
        await cluster.run(node, ["rm", "-rf", stateOf(node)]);
      }
    },
  };
  proxy.configure(kind.mode);
  proxy.trust(cluster.plane.authorities().slice(0, 1), "file");
  return proxy;
}

interface Kubeconfig {
  readonly clusters: readonly [{ readonly name: string; readonly cluster: { readonly server: string } }];
}

/** A kubeconfig with other trusted authorities. */
function kubeconfigWith(original: Kubeconfig, trusted: Readonly<Record<string, string>>): string {
  const { name, cluster: { server } } = original.clusters[0];
  return JSON.stringify({ ...original, clusters: [{ name, cluster: { server, ...trusted } }] });
}

function configuration(node: string, mode: Mode, kubeconfig: string): unknown {
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

/** Creates a kubeconfig for Sluice, or renews its token; resolves with its path. */
async function createIdentity({ plane }: Cluster, output: string): Promise<string> {
  const options = ["--kubeconfig", plane.kubeconfig, "--token-duration", "24h", "--output", output];
  const command = new Deno.Command(sluiceBinary(), {
    args: ["kubeconfig", ...options],
    stdout: "null",
    stderr: "piped",
  });
  const { success, stderr } = await command.output();
  if (!success) throw new Error(`sluice kubeconfig failed: ${new TextDecoder().decode(stderr)}`);
  return output;
}
