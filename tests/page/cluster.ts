/** Manifests of test clusters. */

/** A service with one port and its endpoints. */
export interface TestService {
  /** `namespace/name`. */
  readonly at: string;
  readonly clusterIPs: readonly string[];
  readonly port?: number;
  readonly portName?: string;
  readonly protocol?: "TCP" | "UDP";
  /** Additional fields of its `spec`. */
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly endpoints: readonly TestEndpoint[];
  /** The time of the last change of its endpoints, in milliseconds since 1970. */
  readonly changedAtMs?: number;
}

/** An endpoint; the address determines the family. */
export interface TestEndpoint {
  readonly address: string;
  readonly node?: string;
  readonly zone?: string;
  readonly conditions?: Readonly<Record<string, boolean>>;
}

/** Manifests of these services, as JSON (which is valid YAML). */
export function manifestsOf(services: readonly TestService[], node?: Readonly<Record<string, unknown>>): string {
  const items = [...(node ? [node] : []), ...services.flatMap(objectsOf)];
  return JSON.stringify({ apiVersion: "v1", kind: "List", items });
}

function objectsOf(testService: TestService): unknown[] {
  const { at, clusterIPs, port = 80, portName = "http", protocol = "TCP", spec, annotations, endpoints, changedAtMs } =
    testService;
  const [namespace, name] = at.split("/");
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace, name, annotations },
    spec: {
      type: "ClusterIP",
      clusterIP: clusterIPs[0],
      clusterIPs,
      ports: [{ name: portName, port, protocol }],
      ...spec,
    },
  };
  const slices = (["IPv4", "IPv6"] as const).flatMap((family) => {
    const ours = endpoints.filter(({ address }) => address.includes(":") === (family === "IPv6"));
    return ours.length === 0 ? [] : [{
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: {
        namespace,
        name: `${name}-${family.toLowerCase()}`,
        labels: { "kubernetes.io/service-name": name },
        annotations: changedAtMs === undefined
          ? {}
          : { "endpoints.kubernetes.io/last-change-trigger-time": new Date(changedAtMs).toISOString() },
      },
      addressType: family,
      ports: [{ name: portName, port: 8080, protocol }],
      endpoints: ours.map(({ address, node = "node-1", zone = "zone-a", conditions = { ready: true } }) => ({
        addresses: [address],
        nodeName: node,
        zone,
        conditions,
      })),
    }];
  });
  return [service, ...slices];
}
