/** The cluster as JSON from the API server, with the fields that controllers add to each object. */
import { clusterIP, endpointAddresses, serviceName } from "./cluster.ts";

/** A complete list response. */
export function listResponse(kind: "Service" | "EndpointSlice", size: number): Uint8Array {
  const itemText = kind === "Service" ? serviceText : sliceText;
  const items = Array.from({ length: size }, (_, index) => itemText(index)).join(",");
  return new TextEncoder().encode(`{"kind":"${kind}List","metadata":{"resourceVersion":"5"},"items":[${items}]}`);
}

/** An ordinary ClusterIP service. */
export function serviceText(index: number): string {
  return JSON.stringify({
    kind: "Service",
    metadata: metadata(serviceName(index), { app: `app-${index}` }),
    spec: {
      type: "ClusterIP",
      clusterIP: clusterIP(index),
      clusterIPs: [clusterIP(index)],
      ipFamilies: ["IPv4"],
      ipFamilyPolicy: "SingleStack",
      internalTrafficPolicy: "Cluster",
      sessionAffinity: "None",
      selector: { app: `app-${index}` },
      ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }],
    },
    status: { loadBalancer: {} },
  });
}

/** The slice of a service; see `endpointAddresses` for `round`. */
export function sliceText(index: number, round = 0): string {
  const at = serviceName(index);
  return JSON.stringify({
    kind: "EndpointSlice",
    metadata: metadata(`${at}-a`, { "kubernetes.io/service-name": at.slice(at.indexOf("/") + 1) }),
    addressType: "IPv4",
    endpoints: endpointAddresses(index, round).map((address) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: `node-${index % 500}`,
    })),
    ports: [{ name: "http", protocol: "TCP", port: 8080 }],
  });
}

function metadata(at: string, labels: Record<string, string>) {
  const [namespace, name] = at.split("/");
  return {
    name,
    namespace,
    labels,
    uid: "6f1d6b0e-3c1c-4f5e-9a55-0d9c7b1f2a34",
    resourceVersion: "123456",
    creationTimestamp: "2025-01-01T00:00:00Z",
  };
}
