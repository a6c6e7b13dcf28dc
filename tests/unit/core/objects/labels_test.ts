import assert from "node:assert/strict";
import { createDecode } from "../../../../core/objects/decode.ts";

const decode = createDecode({ labelKeys: { nodes: ["disk"], pods: ["version", "track"] } });
const meta = (labels: Record<string, unknown>) => ({ metadata: { namespace: "default", name: "one", labels } });

Deno.test("of a pod or node, only the labels that weights may refer to are kept", () => {
  const { object } = decode("PodLabels", meta({ version: "v2", app: "web", track: 3 }));
  assert.deepEqual(object, { kind: "PodLabels", namespace: "default", name: "one", labels: { version: "v2" } });
  const { object: node, ref } = decode("NodeLabels", meta({ disk: "ssd", version: "v2" }));
  assert.deepEqual(node, { kind: "NodeLabels", name: "one", labels: { disk: "ssd" } });
  assert.deepEqual(ref, { kind: "NodeLabels", namespace: "", name: "one" });
});

Deno.test("an object without such a label is not kept at all", () => {
  assert.equal(decode("PodLabels", meta({ app: "web" })).object, undefined);
  assert.equal(decode("NodeLabels", {}).problems.length, 1);
});

Deno.test("endpoints have the names of their pods only if weights may refer to labels of pods", () => {
  const slice = {
    metadata: { namespace: "default", name: "web-1", labels: { "kubernetes.io/service-name": "web" } },
    addressType: "IPv4",
    endpoints: [{ addresses: ["10.1.0.1"], targetRef: { kind: "Pod", name: "web-a" } }, { addresses: ["10.1.0.2"] }],
  };
  const podNames = (decode: ReturnType<typeof createDecode>) => {
    const { object } = decode("EndpointSlice", slice);
    return object?.kind === "EndpointSlice" ? object.endpoints.map((endpoint) => endpoint.podName) : [];
  };
  assert.deepEqual(podNames(decode), ["web-a", undefined]);
  assert.deepEqual(podNames(createDecode({ labelKeys: { nodes: ["disk"], pods: [] } })), [undefined, undefined]);
  assert.deepEqual(podNames(createDecode({})), [undefined, undefined]);
});
