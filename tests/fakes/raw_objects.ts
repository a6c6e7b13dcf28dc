/** Shorthand for objects as the API server sends them. */

/** An EndpointSlice: see `rawSlice`. */
export interface RawSliceOptions {
  readonly service?: string;
  readonly addressType?: string;
  /** Name and number of each TCP port: `{ http: 80 }`; null for a port without a number. */
  readonly ports: Readonly<Record<string, number | null>>;
  readonly protocol?: string;
  /**
   * Each is an address followed, in any order, by `@NODE`, the states `unready` (with `serving`: still serving),
   * `terminating` (still serving) or `ended` (no longer), and hints `zone=A,B` and `node=A`: `10.0.0.1 @here terminating`.
   */
  readonly endpoints: readonly string[];
  readonly triggeredAt?: string;
}

/** The slice `at` (`namespace/name`); the part of its name before the last dash is the service. */
export function rawSlice(at: string, options: RawSliceOptions): Record<string, unknown> {
  const [namespace, name] = at.split("/") as [string, string];
  const { service = name.slice(0, name.lastIndexOf("-")), addressType = "IPv4", protocol = "TCP", triggeredAt } =
    options;
  return {
    metadata: {
      namespace,
      name,
      labels: { "kubernetes.io/service-name": service },
      ...triggeredAt && { annotations: { "endpoints.kubernetes.io/last-change-trigger-time": triggeredAt } },
    },
    addressType,
    ports: Object.entries(options.ports).map(([name, port]) => ({ name, protocol, ...port === null ? {} : { port } })),
    endpoints: options.endpoints.map(rawEndpoint),
  };
}

function rawEndpoint(text: string): Record<string, unknown> {
  const [address, ...words] = text.split(" ");
  const after = (prefix: string) => words.find((word) => word.startsWith(prefix))?.slice(prefix.length);
  const names = (prefix: string) => after(prefix)?.split(",").map((name) => ({ name }));
  const isTerminating = words.includes("terminating") || words.includes("ended");
  const isUnready = words.includes("unready");
  return {
    addresses: [address],
    nodeName: after("@"),
    conditions: {
      ready: !isTerminating && !isUnready,
      serving: words.includes("serving") || !isUnready && !words.includes("ended"),
      terminating: isTerminating,
    },
    hints: { forZones: names("zone="), forNodes: names("node=") },
  };
}

/** A Service `at` (`namespace/name`) with this spec, status and ports. */
export function rawService(
  at: string,
  spec: Readonly<Record<string, unknown>>,
  ingress: readonly Readonly<Record<string, unknown>>[] = [],
): Record<string, unknown> {
  const [namespace, name] = at.split("/");
  return { metadata: { namespace, name }, spec, status: { loadBalancer: { ingress } } };
}
