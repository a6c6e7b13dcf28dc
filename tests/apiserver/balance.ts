/** The balancing annotations of a Service at a real API server, with labels of Nodes. */
import assert from "node:assert/strict";
import { NETWORK } from "../../demo/lab.ts";
import type { ChaosLab } from "../chaos/lab.ts";
import { waitFor } from "../chaos/wait.ts";
import type { ControlPlane } from "./control_plane.ts";
import { sluice, startProxy } from "./sluice.ts";

const SERVICE = "/api/v1/namespaces/default/services/web";
const SLICE = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web-ipv4";
const WITHIN_MS = 20_000;
const CONNECTIONS = 16;

interface Event {
  readonly involvedObject: { readonly kind: string; readonly name: string };
  /** The host is the node of a proxy. */
  readonly source: { readonly host?: string };
  readonly reason: string;
  readonly message: string;
}

/** The pods that answer new connections to the service. */
async function answering(lab: ChaosLab): Promise<string> {
  const found = new Set<string>();
  for (let i = 0; i < CONNECTIONS; i++) {
    const outcome = await lab.connect("node", { protocol: "tcp", address: "10.96.0.10", port: 80 });
    found.add(outcome.kind === "answered" ? outcome.by : outcome.kind);
  }
  return [...found].sort().join();
}

/** Runs a proxy with weights by a label of Nodes, and an annotation that is not valid. */
export async function followsAnnotations(lab: ChaosLab, plane: ControlPlane, kubeconfig: string): Promise<void> {
  const { request, create } = plane;
  const becomes = (pods: string) => waitFor(`${pods} answer`, WITHIN_MS, async () => await answering(lab) === pods);
  const annotate = async (weights: string | null) => {
    const { status } = await request("PATCH", SERVICE, {
      metadata: { annotations: { "sluice.dev/weights": weights } },
    });
    assert.equal(status, 200);
  };
  const events = async () => {
    const { body } = await request("GET", "/api/v1/namespaces/default/events");
    // The API server records Events of Services, too, such as ClusterIPNotAllocated.
    return (body.items as readonly Event[]).filter(({ involvedObject: { kind, name }, source }) =>
      kind === "Service" && name === "web" && source.host !== undefined
    );
  };
  const old = { apiVersion: "v1", kind: "Node", metadata: { name: "old-node", labels: { disk: "old" } } };
  assert.equal((await create(old)).status, 201);
  const endpoint = (pod: "pod-1" | "pod-2", nodeName: string) => ({
    ...{ addresses: [NETWORK.pods[pod].IPv4], nodeName, conditions: { ready: true } },
  });
  const endpoints = [endpoint("pod-1", NETWORK.nodeName), endpoint("pod-2", "old-node")];
  assert.equal((await request("PATCH", SLICE, { endpoints })).status, 200);
  const config = `${lab.folder}/balance.json`;
  const { IPv4, IPv6 } = NETWORK.clusterCIDR;
  Deno.writeTextFileSync(
    config,
    JSON.stringify({
      ...{ apiVersion: "kubeproxy.config.k8s.io/v1alpha1", kind: "KubeProxyConfiguration", mode: "nftables" },
      ...{ clientConnection: { kubeconfig }, clusterCIDR: `${IPv4},${IPv6}`, hostnameOverride: NETWORK.nodeName },
      ...{ conntrack: { maxPerCore: 0 }, oomScoreAdj: 0, balance: { nodeLabels: ["disk"] } },
    }),
  );
  const proxy = startProxy(lab, "--config", config);
  await becomes("pod-1,pod-2");
  await annotate("node-label/disk=old: 0");
  await becomes("pod-1");
  await request("PATCH", "/api/v1/nodes/old-node", { metadata: { labels: { disk: "new" } } });
  await becomes("pod-1,pod-2");
  await annotate("node-label/disk=new: 0, *: many");
  await waitFor("the annotation has an Event", WITHIN_MS, async () => (await events()).length > 0);
  await becomes("pod-1,pod-2");
  await annotate(null);
  await becomes("pod-1,pod-2");
  const [event, ...others] = await events();
  assert.match(`${event!.reason} ${event!.message}`, /^BalanceIgnored .*sluice\.dev\/weights.*many/);
  assert.deepEqual(others, []);
  await proxy.end("SIGTERM");
  await sluice(lab, "--cleanup");
}
