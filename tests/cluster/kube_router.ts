/** kube-router without its service proxy, on a node of the cluster. */
import { SERVICE_NETWORK } from "../apiserver/control_plane.ts";
import { waitFor } from "../chaos/wait.ts";
import { type Cluster, cniFileOf, type NodeName } from "./cluster.ts";

const HEALTHY_WITHIN_MS = 60_000;

/** Starts kube-router on a node; resolves once it is healthy. `endOnNode` ends it. */
export async function startKubeRouter(
  cluster: Cluster,
  node: NodeName,
  flags: readonly string[],
): Promise<Deno.ChildProcess> {
  const args = [
    ...[`--kubeconfig=${cluster.plane.kubeconfig}`, `--hostname-override=${node}`],
    ...["--run-service-proxy=false", "--run-loadbalancer=false", "--enable-ipv4=true", "--enable-ipv6=true"],
    `--service-cluster-ip-range=${SERVICE_NETWORK}`,
    ...flags,
  ];
  const log = `${cluster.folder}/${node}/kube-router.log`;
  const command = ["sh", "-c", 'exec "$@" >> "$0" 2>&1', log, `${cluster.programs}/kube-router`, ...args];
  const child = cluster.start(node, command, { env: { KUBE_ROUTER_CNI_CONF_FILE: cniFileOf(cluster, node) } });
  await waitFor(`kube-router on ${node} is healthy`, HEALTHY_WITHIN_MS, async () => {
    return (await cluster.run(node, ["curl", "-sfo", "/dev/null", "http://127.0.0.1:20244/healthz"])).code === 0;
  }, 200);
  return child;
}
