/** Histories of a cluster, for property tests. */
import fc from "fast-check";
import { type ClusterObject, type Kind, KINDS, type ObjectRef, refOf } from "../../core/objects/cluster_object.ts";
import type { Subscription } from "../../kpng/server/answers.ts";
import type { SourceSink } from "../../core/objects/source.ts";
import { endpoint, endpointSlice, node, service } from "../fakes/cluster_objects.ts";

/** An event of a source, or a request of a watcher. */
export type ClusterEvent =
  | { readonly type: "set"; readonly object: ClusterObject }
  | { readonly type: "delete"; readonly ref: ObjectRef }
  /** The source resets a kind to exactly these objects. */
  | { readonly type: "relist"; readonly kind: Kind; readonly objects: readonly ClusterObject[] }
  | { readonly type: "ask"; readonly watcher: number };

const NODES = ["node-1", "node-2"];
const ZONES = ["", "zone-a", "zone-b"];

const anEndpoint = fc.record({
  address: fc.integer({ min: 1, max: 5 }).map((n) => `10.1.0.${n}`),
  nodeName: fc.constantFrom(...NODES),
  ready: fc.boolean(),
  serving: fc.boolean(),
  terminating: fc.boolean(),
  zone: fc.constantFrom(...ZONES),
  zoneHints: fc.constantFrom(undefined, ["zone-a"], ["zone-b"]),
  nodeHints: fc.constantFrom(undefined, undefined, ["node-1"], ["node-2"]),
}).map(({ address, ...fields }) => endpoint(address, fields));
const aSlice = fc.record({
  name: fc.constantFrom("web-1", "web-2", "api-1"),
  ports: fc.constantFrom(
    [{ name: "http", protocol: "tcp" as const, port: 8080 }],
    [{ name: "http", protocol: "tcp" as const, port: 8081 }, { name: "dns", protocol: "udp" as const, port: 53 }],
  ),
  endpoints: fc.uniqueArray(anEndpoint, { maxLength: 4, selector: ({ address }) => address }),
  triggerTimeMs: fc.constantFrom(0, 1000, 2000),
}).map(({ name, endpoints, ...fields }) => {
  const sorted = endpoints.toSorted((a, b) => a.address < b.address ? -1 : 1);
  return endpointSlice(`default/${name}`, sorted, fields);
});
const aService = fc.record({
  name: fc.constantFrom("web", "api"),
  externalPolicyLocal: fc.boolean(),
  internalPolicyLocal: fc.boolean(),
  affinitySeconds: fc.constantFrom(0, 30),
  type: fc.constantFrom("ClusterIP" as const, "NodePort" as const, "LoadBalancer" as const),
  clusterIPs: fc.constantFrom(["10.0.0.1"], ["10.0.0.2", "fd00::2"]),
  externalIPs: fc.constantFrom([], ["192.0.2.1"]),
  nodePort: fc.constantFrom(0, 30080),
}).map(({ name, nodePort, externalPolicyLocal, ...fields }) =>
  service(`default/${name}`, {
    ...fields,
    // As in decoded objects: the policy has no meaning for services that are not reachable from outside.
    externalPolicyLocal: externalPolicyLocal && (fields.type !== "ClusterIP" || fields.externalIPs.length > 0),
    ...fields.type === "LoadBalancer" && {
      loadBalancerIPs: ["198.51.100.1"],
      sourceRanges: ["203.0.113.0/24"],
      healthCheckNodePort: externalPolicyLocal ? 32000 : 0,
    },
    ports: [
      { name: "http", protocol: "tcp", port: 80, nodePort },
      { name: "dns", protocol: "udp", port: 53, nodePort: 0 },
    ],
  })
);
const aNode = fc.record({ name: fc.constantFrom(...NODES), zone: fc.constantFrom(...ZONES) })
  .map(({ name, zone }) => node(name, { zone }));
const aCIDR = fc.constantFrom(["10.0.0.0/16"], ["10.0.0.0/16", "fd00::/108"])
  .map((cidrs): ClusterObject => ({ kind: "ServiceCIDR", name: "kubernetes", cidrs }));
const anObject: fc.Arbitrary<ClusterObject> = fc.oneof(aSlice, aSlice, aService, aNode, aCIDR);

/** One watcher of every kind; the local ones watch `node-1`. */
export const subscriptions: readonly Subscription[] = [
  { scope: "global", nodeName: "", extended: true, onlyNode: undefined },
  { scope: "global", nodeName: "", extended: true, onlyNode: "node-1" },
  { scope: "local", nodeName: "node-1", extended: true, onlyNode: undefined },
  { scope: "global", nodeName: "", extended: false, onlyNode: undefined },
  { scope: "local", nodeName: "node-1", extended: false, onlyNode: undefined },
];

/** Any event; there are few objects with short names, so that many events affect the same ones. */
export const anEvent: fc.Arbitrary<ClusterEvent> = fc.oneof(
  { weight: 8, arbitrary: anObject.map((object) => ({ type: "set" as const, object })) },
  { weight: 3, arbitrary: anObject.map((object) => ({ type: "delete" as const, ref: refOf(object) })) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constantFrom(...KINDS), objects: fc.array(anObject, { maxLength: 4 }) })
      .map(({ kind, objects }) => (
        { type: "relist" as const, kind, objects: objects.filter((object) => object.kind === kind) }
      )),
  },
  {
    weight: 4,
    arbitrary: fc.nat({ max: subscriptions.length - 1 }).map((watcher) => ({ type: "ask" as const, watcher })),
  },
);

/** Applies a source's event to a sink. */
export function apply(sink: SourceSink, event: ClusterEvent): void {
  if (event.type === "set") sink.set(event.object);
  if (event.type === "delete") sink.delete(event.ref);
  if (event.type !== "relist") return;
  sink.reset(event.kind);
  for (const object of event.objects) sink.set(object);
  sink.synced(event.kind);
}
