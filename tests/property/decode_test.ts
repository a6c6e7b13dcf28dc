import assert from "node:assert/strict";
import fc from "fast-check";
import { decodeObject } from "../../core/objects/decode.ts";
import { KINDS, refOf } from "../../core/objects/cluster_object.ts";
import { canonicalAddress, canonicalPrefix, familyOf } from "../../platform/address.ts";
import { runs } from "./runs.ts";

const name = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom("web", "a-b.c") },
  { weight: 1, arbitrary: fc.constantFrom("", "bad name", 'x"; flush', "x\ny", "-dash", null) },
);
const address = fc.constantFrom(
  "10.0.0.1",
  "010.0.0.1",
  "fd00::1",
  "FD00:0::1",
  "::ffff:1.2.3.4",
  "None",
  "",
  "example",
);
const port = fc.oneof(fc.constantFrom(80, 0, -1, 65535, 65536, 1.5, "80", null), fc.integer());
const protocol = fc.constantFrom("TCP", "UDP", "SCTP", "tcp", "", null, "toString");
const list = <T>(item: fc.Arbitrary<T>) => fc.oneof({ weight: 6, arbitrary: fc.array(item) }, fc.jsonValue());
const record = <T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }) =>
  fc.oneof({ weight: 6, arbitrary: fc.record(model, { requiredKeys: [] }) }, fc.jsonValue());
const anyOr = (item: fc.Arbitrary<unknown>) => fc.oneof({ weight: 4, arbitrary: item }, fc.jsonValue());

/** Objects that are nearly valid: arbitrary JSON rarely has a valid name. */
const nearlyRight = fc.record({
  metadata: fc.record({
    name,
    namespace: name,
    labels: fc.record({ "kubernetes.io/service-name": anyOr(name) }, { requiredKeys: [] }),
    annotations: anyOr(fc.constant({ "endpoints.kubernetes.io/last-change-trigger-time": "2024-01-01T00:00:00.5Z" })),
  }),
  spec: record({
    type: anyOr(fc.constantFrom("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")),
    clusterIP: anyOr(address),
    clusterIPs: list(address),
    ipFamilies: list(fc.constantFrom("IPv4", "IPv6")),
    externalIPs: list(address),
    ports: list(record({ name: anyOr(name), port, nodePort: port, protocol })),
    loadBalancerSourceRanges: list(fc.constantFrom("10.1.2.3/8", " fd00::/8 ", "10.0.0.0", "")),
    sessionAffinity: anyOr(fc.constantFrom("ClientIP", "None")),
    sessionAffinityConfig: record({ clientIP: record({ timeoutSeconds: port }) }),
    externalTrafficPolicy: anyOr(fc.constantFrom("Local", "Cluster")),
    healthCheckNodePort: port,
    podCIDRs: list(fc.constantFrom("10.0.0.0/24", "fd00::/64", "x")),
    taints: list(record({ key: anyOr(fc.constant("ToBeDeletedByClusterAutoscaler")) })),
  }),
  status: record({
    loadBalancer: record({ ingress: list(record({ ip: anyOr(address), ipMode: anyOr(fc.constant("VIP")) })) }),
    addresses: list(record({ type: fc.constantFrom("InternalIP", "ExternalIP"), address: anyOr(address) })),
  }),
  addressType: anyOr(fc.constantFrom("IPv4", "IPv6", "FQDN")),
  ports: list(record({ name: anyOr(name), port, protocol })),
  endpoints: list(record({
    addresses: list(address),
    conditions: record({ ready: anyOr(fc.boolean()), serving: anyOr(fc.boolean()), terminating: anyOr(fc.boolean()) }),
    nodeName: anyOr(name),
    zone: anyOr(name),
    hints: record({ forZones: list(record({ name })), forNodes: list(record({ name })) }),
  })),
}, { requiredKeys: ["metadata"] });

const TOOL_SAFE = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
const isPort = (value: number) => Number.isInteger(value) && value >= 1 && value <= 65535;

function assertUsable(kind: typeof KINDS[number], raw: unknown): void {
  const { ref, object, problems } = decodeObject(kind, raw);
  for (const problem of problems) assert.match(problem, /\S/);
  if (object === undefined) return;
  assert.deepEqual(ref, refOf(object));
  assert.match(object.name, TOOL_SAFE);
  if (object.kind === "Node") {
    for (const text of object.addresses) assert.equal(canonicalAddress(text), text);
    for (const text of object.podCIDRs) assert.equal(canonicalPrefix(text), text);
    return;
  }
  if (object.kind === "ServiceCIDR") {
    for (const text of object.cidrs) assert.equal(canonicalPrefix(text), text);
    return;
  }
  if (object.kind === "NodeLabels" || object.kind === "PodLabels") {
    assert.notEqual(Object.keys(object.labels).length, 0);
    return;
  }
  assert.match(object.namespace, TOOL_SAFE);
  for (const one of object.ports) {
    if (one.name !== "") assert.match(one.name, TOOL_SAFE);
    assert.ok(isPort(one.port));
    assert.ok(["tcp", "udp", "sctp"].includes(one.protocol));
  }
  if (object.kind === "EndpointSlice") {
    assert.match(object.serviceName, TOOL_SAFE);
    for (const endpoint of object.endpoints) {
      assert.equal(canonicalAddress(endpoint.address), endpoint.address);
      assert.equal(familyOf(endpoint.address), object.family);
      assert.notEqual(endpoint.zoneHints?.length, 0);
    }
    return;
  }
  for (const text of [...object.clusterIPs, ...object.externalIPs, ...object.loadBalancerIPs]) {
    assert.equal(canonicalAddress(text), text);
  }
  for (const text of object.sourceRanges) assert.equal(canonicalPrefix(text), text);
  for (const one of object.ports) assert.ok(one.nodePort === 0 || isPort(one.nodePort));
  assert.ok(Number.isInteger(object.affinitySeconds));
}

Deno.test("decoding any object does not throw, and its result is valid", () => {
  fc.assert(fc.property(fc.constantFrom(...KINDS), nearlyRight, assertUsable), runs(500));
});

Deno.test("decoding does not throw on values that are not JSON", () => {
  fc.assert(
    fc.property(fc.constantFrom(...KINDS), fc.anything({ withBigInt: true, withNullPrototype: true }), assertUsable),
    runs(300),
  );
});
