import type { ServicePort, TrafficReading } from "../../core/model/mod.ts";
import { fakeServicePort, fakeSources } from "./service_port.ts";

/** The rows of a reading, sorted: `PORT ENDPOINT CONNECTIONS,PACKETS,BYTES`, and `PORT REASON PACKETS` for failures. */
export function rowsOf({ ports, endpoints, counts, failures }: TrafficReading): readonly string[] {
  const rows = ports.map((port, row) => `${port} ${endpoints[row]} ${[...counts.subarray(3 * row, 3 * row + 3)]}`);
  return [...rows, ...failures.map(({ port, reason, packets }) => `${port} ${reason} ${packets}`)].sort();
}

/**
 * Service ports that refuse packets, each for another reason: 10.96.0.10:80, node port 30081, 192.0.2.2:80; and node port 30083 at
 * 192.168.1.1.
 */
export const REFUSING: readonly ServicePort[] = [
  fakeServicePort("default/empty", { clusterEndpoints: [], internal: "reject", external: "reject" }),
  fakeServicePort("default/elsewhere", {
    clusterIP: "10.96.0.11",
    nodePort: 30081,
    external: "drop",
    clusterEndpoints: ["10.2.0.1:80"],
  }),
  fakeServicePort("default/limited", {
    clusterIP: "10.96.0.12",
    loadBalancerIPs: ["192.0.2.2"],
    loadBalancerSources: fakeSources(["198.18.0.0/24"]),
  }),
  fakeServicePort("default/narrow", {
    clusterIP: "10.96.0.13",
    nodePort: 30083,
    nodePortPrefixes: ["10.0.0.0/8", "192.168.1.1/32"],
    ...{ clusterEndpoints: [], internal: "reject", external: "reject" },
  }),
];

/** The rows after one packet to each of `REFUSING`, and a second one to each node port. */
export const REFUSED: readonly string[] = [
  "default/elsewhere|tcp traffic-policy 2",
  "default/empty|tcp no-endpoints 1",
  "default/limited|tcp source-range 1",
  "default/narrow|tcp no-endpoints 2",
];
