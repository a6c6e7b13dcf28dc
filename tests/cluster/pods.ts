/** Objects of the suite in the cluster, and its pods as clients. */
import type { Answer } from "../apiserver/control_plane.ts";
import { waitFor } from "../chaos/wait.ts";
import { type Addresses, type Cluster, type NodeName, OUTSIDE } from "./cluster.ts";
import { FAMILIES } from "../../platform/mod.ts";
import { AGNHOST } from "./images.ts";

/** The port, TCP and UDP, on which pods of the network of pods listen. */
export const POD_PORT = 8080;
/** The port on which pods of a node's network, and the client outside, are asked. */
const HOST_PORT = 18080;
const READY_WITHIN_MS = 180_000;
const GONE_WITHIN_MS = 180_000;

/** The namespace of the suite's objects. */
export const NAMESPACE = "cluster-test";

/** A pod of the suite. */
export interface PodOptions {
  readonly node: NodeName;
  readonly labels?: Readonly<Record<string, string>>;
  readonly hostNetwork?: boolean;
  /** Also reachable at this port of the node. */
  readonly hostPort?: number;
}

/** A container that answers on a port, and opens connections on request. */
export function netexec(port: number, ...more: readonly string[]): Record<string, unknown> {
  return {
    name: "netexec",
    image: AGNHOST.name,
    imagePullPolicy: "Never",
    args: ["netexec", `--http-port=${port}`, `--udp-port=${port}`, ...more],
    readinessProbe: { httpGet: { path: "/readyz", port }, periodSeconds: 1 },
  };
}

/** The manifest of a pod that answers with its name or the client's address. */
export function podObject(name: string, { node, labels, hostNetwork = false, hostPort }: PodOptions): unknown {
  const ports = hostPort === undefined ? undefined : ["TCP", "UDP"].map((protocol) => ({
    containerPort: POD_PORT,
    hostPort,
    protocol,
    name: protocol.toLowerCase(),
  }));
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: NAMESPACE, labels },
    spec: {
      nodeName: node,
      hostNetwork,
      terminationGracePeriodSeconds: 1,
      containers: [{ ...netexec(hostNetwork ? HOST_PORT : POD_PORT), ports }],
    },
  };
}

/** Creates an object. Throws if the API server refuses it. */
export async function create({ plane }: Cluster, object: unknown): Promise<Answer> {
  const answer = await plane.create(object as Parameters<typeof plane.create>[0]);
  if (answer.status !== 201) throw new Error(`cannot create ${JSON.stringify(object)}: ${answer.body.message}`);
  return answer;
}

/** Creates the namespace of the suite; resolves once pods may be created in it. */
export async function createNamespace(cluster: Cluster): Promise<void> {
  await create(cluster, { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } });
  await waitFor("the namespace has its service account", READY_WITHIN_MS, async () => {
    const path = `/api/v1/namespaces/${NAMESPACE}/serviceaccounts/default`;
    return (await cluster.plane.request("GET", path)).status === 200;
  }, 200);
}

/** Deletes the namespace of the suite; resolves once nothing of it is left. */
export async function deleteNamespace({ plane }: Cluster): Promise<void> {
  const path = `/api/v1/namespaces/${NAMESPACE}`;
  await plane.request("DELETE", path);
  const isGone = async () => (await plane.request("GET", path)).status === 404;
  await waitFor("the namespace of the suite is gone", GONE_WITHIN_MS, isGone, 500);
}

interface PodState {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string };
  readonly status: {
    readonly podIPs?: readonly { readonly ip: string }[];
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/** Resolves with the addresses of all pods of the suite, by name, once these are ready and no others end. */
export async function addressesOfPods({ plane }: Cluster): Promise<ReadonlyMap<string, Addresses>> {
  let pods: readonly PodState[] = [];
  await waitFor("all pods are ready", READY_WITHIN_MS, async () => {
    pods = (await plane.request("GET", `/api/v1/namespaces/${NAMESPACE}/pods`)).body.items;
    return pods.every(({ metadata, status }) =>
      metadata.deletionTimestamp === undefined &&
      status.conditions?.some(({ type, status }) => type === "Ready" && status === "True")
    );
  }, 500);
  return new Map(pods.map(({ metadata, status }) => {
    const [IPv4, IPv6] = status.podIPs!.map(({ ip }) => ip);
    return [metadata.name, { IPv4: IPv4!, IPv6: IPv6! }];
  }));
}

/** A client that opens connections on request. */
export interface Client {
  /** Its own addresses. */
  readonly addresses: Addresses;
  /** The port on which it is asked. */
  readonly port: number;
}

/** The client with these addresses, which is a pod. */
export function podClient(addresses: Addresses): Client {
  return { addresses, port: POD_PORT };
}

/** The client with these addresses, which is a pod in the network of a node. */
export function hostClient(addresses: Addresses): Client {
  return { addresses, port: HOST_PORT };
}

/** Starts the client outside of the cluster; it lasts as long as the control plane. */
export async function startOutsideClient(cluster: Cluster): Promise<Client> {
  cluster.plane.start("agnhost", ["netexec", `--http-port=${HOST_PORT}`, "--udp-port=-1"]);
  await waitFor("the client outside answers", READY_WITHIN_MS, async () => {
    const answer = await fetch(`http://${OUTSIDE.IPv4}:${HOST_PORT}/hostname`).catch(() => undefined);
    await answer?.body?.cancel();
    return answer !== undefined;
  }, 100);
  return hostClient(OUTSIDE);
}

/** The addresses of a Service's frontends. */
export interface Frontends {
  readonly clusterIPs: Addresses;
  /** Node ports of TCP and UDP. */
  readonly nodePorts: Readonly<Record<Protocol, number>>;
  readonly healthCheckNodePort: number | undefined;
}

/** A protocol of a service port. */
export type Protocol = "tcp" | "udp";

/** Creates a Service, with port 80 of TCP and UDP in both families, of the pods with these labels. */
export async function createService(
  cluster: Cluster,
  name: string,
  selector: Readonly<Record<string, string>>,
  spec: Record<string, unknown>,
): Promise<Frontends> {
  const { body } = await create(cluster, {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, namespace: NAMESPACE },
    spec: {
      selector,
      ipFamilyPolicy: "RequireDualStack",
      ipFamilies: FAMILIES,
      ports: (["tcp", "udp"] as const).map((protocol) => ({
        name: protocol,
        protocol: protocol.toUpperCase(),
        port: 80,
        targetPort: POD_PORT,
      })),
      ...spec,
    },
  });
  const [IPv4, IPv6] = body.spec.clusterIPs;
  const [tcp, udp] = body.spec.ports;
  return {
    clusterIPs: { IPv4, IPv6 },
    nodePorts: { tcp: tcp.nodePort, udp: udp.nodePort },
    healthCheckNodePort: body.spec.healthCheckNodePort,
  };
}

/** Gives a Service addresses of a load balancer. */
export async function balance({ plane }: Cluster, name: string, addresses: Addresses): Promise<void> {
  const ingress = FAMILIES.map((family) => ({ ip: addresses[family], ipMode: "VIP" }));
  const path = `/api/v1/namespaces/${NAMESPACE}/services/${name}/status`;
  const { status, body } = await plane.request("PATCH", path, { status: { loadBalancer: { ingress } } });
  if (status !== 200) throw new Error(`cannot set the addresses of ${name}: ${body.message}`);
}

/** Answers to a client's connections, and errors of those that failed. */
export interface Replies {
  readonly responses: readonly string[];
  readonly errors: readonly string[];
}

/** Opens connections from a client one after the other, and asks for the server's name or the client's address. */
export async function dial(
  client: Client,
  target: { readonly address: string; readonly port: number; readonly protocol: Protocol },
  request: "hostname" | "clientip",
  tries: number,
): Promise<Replies> {
  const query = new URLSearchParams({
    host: target.address,
    port: String(target.port),
    protocol: target.protocol === "tcp" ? "http" : "udp",
    request,
    tries: String(tries),
  });
  const answer = await fetch(`http://${client.addresses.IPv4}:${client.port}/dial?${query}`);
  const { responses = [], errors = [] } = await answer.json() as Partial<Replies>;
  return { responses, errors };
}

/** The address of `address:port`, as pods print it. */
export function hostOf(text: string): string {
  return text.replace(/:\d+$/, "").replaceAll(/[[\]]/g, "");
}
