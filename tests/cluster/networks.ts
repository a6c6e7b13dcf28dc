/** The networks of the cluster's pods. */
import { FAMILIES } from "../../platform/mod.ts";
import { waitFor } from "../chaos/wait.ts";
import {
  addressesOf,
  type Attachment,
  becomesReady,
  bridgeOf,
  type Cluster,
  cniFileOf,
  endOnNode,
  type NodeName,
  NODES,
} from "./cluster.ts";
import { startKubeRouter } from "./kube_router.ts";

/** The agents that connect the pods of a running cluster. */
export interface PodNetwork {
  /** Replaces its agent on a node; resolves once the node is ready and reached again. */
  restart(node: NodeName): Promise<void>;
}

interface PodNetworkKind {
  readonly attachment: Attachment;
  /** Programs beside those of the cluster. */
  readonly needs: readonly string[];
  /** Starts its agents on the nodes of a cluster. */
  start(cluster: Cluster): Promise<PodNetwork>;
}

const ROUTED_WITHIN_MS = 120_000;

/** The networks by name. */
export const NETWORKS = {
  bridge: {
    attachment: { bridge: "cni0", isRouted: true },
    needs: [],
    start: (cluster) => Promise.resolve({ restart: (node) => replaceConfiguration(cluster, node) }),
  },
  "kube-router": {
    attachment: { bridge: "kube-bridge", isRouted: false },
    needs: ["kube-router"],
    start: startRouting,
  },
} as const satisfies Readonly<Record<string, PodNetworkKind>>;

/** The name of a network. */
export type NetworkName = keyof typeof NETWORKS;

/** Takes the CNI's configuration away until the node is not ready, as agents do that install it when they start. */
async function replaceConfiguration(cluster: Cluster, node: NodeName): Promise<void> {
  const file = cniFileOf(cluster, node);
  Deno.renameSync(file, `${file}.away`);
  await becomesReady(cluster.plane, [node], false);
  Deno.renameSync(`${file}.away`, file);
  await becomesReady(cluster.plane, [node], true);
}

/** kube-router as its manifest for clusters with kube-proxy starts it, without tunnels: all nodes share a link. */
async function startRouting(cluster: Cluster): Promise<PodNetwork> {
  const flags = ["--run-router=true", "--run-firewall=true", "--bgp-graceful-restart=true", "--enable-overlay=false"];
  const running = new Map<NodeName, Deno.ChildProcess>();
  for (const node of NODES) running.set(node, await startKubeRouter(cluster, node, flags));
  for (const node of NODES) await routed(cluster, node);
  return {
    async restart(node) {
      await endOnNode(running.get(node)!, "SIGTERM");
      running.set(node, await startKubeRouter(cluster, node, flags));
      await routed(cluster, node);
    },
  };
}

/** Resolves once a node has routes to the pods of all others. */
async function routed({ run }: Cluster, node: NodeName): Promise<void> {
  for (const other of NODES.filter((one) => one !== node)) {
    for (const family of FAMILIES) {
      await waitFor(`${node} has a route to the pods of ${other}`, ROUTED_WITHIN_MS, async () => {
        return (await run(node, ["ip", "route", "get", bridgeOf(other)[family]])).stdout.includes(
          addressesOf(other)[family],
        );
      }, 500);
    }
  }
}
