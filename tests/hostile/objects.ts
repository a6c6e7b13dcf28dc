import type { ApiObject } from "../fakes/api_server.ts";

/** The Service number `index`. */
export function hostileService(index: number): ApiObject & { readonly apiVersion: string } {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace: "default", name: `web-${index}` },
    spec: {
      type: "ClusterIP",
      clusterIP: `10.96.0.${index}`,
      clusterIPs: [`10.96.0.${index}`],
      ipFamilies: ["IPv4"],
      ports: [{ name: "http", protocol: "TCP", port: 80 }],
    },
  };
}
