/** Invalid objects: valid ones with fields that are missing, of the wrong type, huge or misleading. */
import fc from "fast-check";
import type { Kind } from "../../core/objects/cluster_object.ts";

/** The replacements of fields. */
const JUNK: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(undefined, null, 0, -1, 1e21, 3.5, NaN, true, "", " ", {}, [], [null], [[]], [{}], { a: 1 }),
  fc.constantFrom<unknown>(
    'web"\n-A INPUT -j ACCEPT',
    '" -j DROP --comment "',
    "web; nft flush ruleset",
    "web }\nflush ruleset\n",
    "$(reboot)",
    "`reboot`",
    "--help",
    "-A",
    "ｗｅｂ",
    "日本語",
    "a\u0000b",
    "‮bew",
    "x".repeat(64),
    "x".repeat(10_000),
  ),
  fc.constantFrom<unknown>(
    ...[
      "10.96.0.1",
      "10.96.0.77",
      "010.96.0.77",
      "10.96.77",
      "0x0a.1.1.1",
      "1.2.3.4.5",
      "10.96.0.77/24",
      "0.0.0.0",
      "::",
    ],
    ...[
      "255.255.255.255",
      "127.0.0.1",
      "224.0.0.1",
      "169.254.0.1",
      "::1",
      "::ffff:10.96.0.77",
      "::ffff:a60:4d",
      "fe80::1%eth0",
    ],
    ...[
      "fd00::77",
      "FD00:0:0::77",
      "fd00::77/64",
      "fd00::/129",
      "10.0.0.0/33",
      "10.0.0.0/-1",
      " 10.0.0.0/8 ",
      "10.0.0.0/8,::/0",
    ],
    ...["10.96.0.1; drop", "10.96.0.77\n"],
  ),
  fc.constantFrom<unknown>(65535, 65536, 80, "80", 30080, 2 ** 31, Number.MAX_SAFE_INTEGER),
  fc.constantFrom<unknown>(
    "TCP",
    "tcp",
    "UDP",
    "SCTP",
    "ICMP",
    "Local",
    "Cluster",
    "ClientIP",
    "NodePort",
    "LoadBalancer",
  ),
  fc.array(fc.constantFrom<unknown>("10.96.0.77", "10.96.0.1", "fd00::77", null, 7, {}), { maxLength: 30 }),
);

const some = <T>(values: readonly T[]) => fc.constantFrom(...values);
const name = some(["a", "b", "c", "d", "kept"]);
const port = fc.record({
  name: some(["http", "dns", "", "x"]),
  protocol: some(["TCP", "UDP", "SCTP"]),
  port: some([80, 81, 8080, 53]),
  nodePort: some([0, 30080, 30081]),
});

const service = fc.record({
  kind: fc.constant("Service"),
  metadata: fc.record({ name, namespace: some(["default", "other"]), labels: fc.constant({ app: "x" }) }),
  spec: fc.record({
    type: some(["ClusterIP", "NodePort", "LoadBalancer"]),
    clusterIP: some(["10.96.0.77", "10.96.0.78", "None"]),
    clusterIPs: some([["10.96.0.77"], ["10.96.0.78", "fd00::78"], ["10.96.0.1"], ["fd00::77"]]),
    externalIPs: some([[], ["198.51.100.1"], ["198.51.100.1", "10.96.0.1"]]),
    ports: fc.array(port, { maxLength: 4 }),
    sessionAffinity: some(["None", "ClientIP"]),
    sessionAffinityConfig: some([{}, { clientIP: { timeoutSeconds: 30 } }]),
    loadBalancerSourceRanges: some([[], ["10.0.0.0/8"], ["10.1.2.3/8", "fd00::/8"]]),
    externalTrafficPolicy: some(["Cluster", "Local"]),
    internalTrafficPolicy: some(["Cluster", "Local"]),
    healthCheckNodePort: some([0, 32000]),
  }),
  status: fc.record({
    loadBalancer: fc.record({ ingress: some([[], [{ ip: "203.0.113.9" }], [{ ip: "203.0.113.9", ipMode: "Proxy" }]]) }),
  }),
});

const sliceEndpoint = fc.record({
  addresses: some([["10.1.0.1"], ["10.1.0.2"], ["fd00:1::1"], ["10.1.0.1", "10.1.0.2"], []]),
  conditions: some([{ ready: true }, { ready: false, serving: true, terminating: true }, {}]),
  nodeName: some(["this-node", "other"]),
  zone: some(["z1", "z2"]),
  hints: some([{}, { forZones: [{ name: "z1" }] }]),
});

const slice = fc.record({
  kind: fc.constant("EndpointSlice"),
  metadata: fc.record({
    name: some(["s1", "s2", "s3"]),
    namespace: some(["default", "other"]),
    labels: name.map((service) => ({ "kubernetes.io/service-name": service })),
    annotations: some([{}, { "endpoints.kubernetes.io/last-change-trigger-time": "not a time" }]),
  }),
  addressType: some(["IPv4", "IPv6", "FQDN"]),
  endpoints: fc.array(sliceEndpoint, { maxLength: 6 }),
  ports: fc.array(port, { maxLength: 4 }),
});

const node = fc.record({
  kind: fc.constant("Node"),
  metadata: fc.record({
    name: some(["this-node", "other"]),
    labels: some([{}, { "topology.kubernetes.io/zone": "z1" }]),
  }),
  spec: some([{}, { podCIDRs: ["10.244.0.0/24", "fd00:244::/64"] }]),
  status: some([{}, { addresses: [{ type: "InternalIP", address: "192.168.1.1" }] }]),
});

/** The paths of all values in an object. */
function pathsIn(value: unknown, path: readonly string[] = []): (readonly string[])[] {
  const below = typeof value === "object" && value !== null
    ? Object.entries(value).flatMap(([key, inner]) => pathsIn(inner, [...path, key]))
    : [];
  return path.length === 0 ? below : [path, ...below];
}

function replaced(value: unknown, [key, ...rest]: readonly string[], by: unknown): unknown {
  if (key === undefined) return by;
  if (Array.isArray(value)) return value.map((item, i) => String(i) === key ? replaced(item, rest, by) : item);
  return { ...value as object, [key]: replaced((value as Record<string, unknown>)[key], rest, by) };
}

/** An object of any kind with up to four corrupted fields. */
export const hostileObjects: fc.Arbitrary<{ readonly kind: Kind; readonly raw: unknown }> = fc.tuple(
  fc.oneof({ weight: 5, arbitrary: service }, { weight: 5, arbitrary: slice }, { weight: 1, arbitrary: node }),
  fc.array(fc.tuple(fc.nat(), JUNK), { maxLength: 4 }),
).map(([object, spoils]) => {
  let raw: unknown = object;
  for (const [at, junk] of spoils) {
    const paths = pathsIn(raw);
    if (paths.length > 0) raw = replaced(raw, paths[at % paths.length]!, junk);
  }
  return { kind: object.kind as Kind, raw };
});
