/** Which services are this proxy's, and which labels and annotations are kept. */
import assert from "node:assert/strict";
import type { EndpointSlice, Node, Service } from "../../../../core/objects/cluster_object.ts";
import { createDecode, decodeObject } from "../../../../core/objects/decode.ts";
import type { DecodeOptions } from "../../../../core/objects/decode_options.ts";

const PROXY_NAME = "service.kubernetes.io/service-proxy-name";

function raw(labels: Record<string, unknown> = {}, annotations: Record<string, unknown> = {}) {
  return { metadata: { name: "web", namespace: "default", labels, annotations }, spec: { clusterIP: "10.0.0.1" } };
}

Deno.test("without a name, a proxy serves the services without the label", () => {
  const isIgnored = (labels: Record<string, unknown>) =>
    (decodeObject("Service", raw(labels)).object as Service).ignored;
  assert.deepEqual([{}, { [PROXY_NAME]: "edge" }, { [PROXY_NAME]: "" }].map(isIgnored), [false, true, true]);
});

Deno.test("with a name, a proxy serves exactly the services of that name", () => {
  const decode = createDecode({ serviceProxyName: "edge" });
  const isIgnored = (labels: Record<string, unknown>) => (decode("Service", raw(labels)).object as Service).ignored;
  assert.deepEqual([{}, { [PROXY_NAME]: "edge" }, { [PROXY_NAME]: "Edge" }].map(isIgnored), [true, false, true]);
});

Deno.test("only the chosen labels and annotations are kept, each by its own filter", () => {
  const decode = createDecode({
    details: {
      serviceLabels: (key) => key === "app",
      serviceAnnotations: (key) => key.startsWith("example.com/"),
      nodeLabels: () => true,
      nodeAnnotations: () => false,
    },
  });
  const object = raw({ app: "web", team: "a", bad: 1 }, { "example.com/note": "n", other: "o" });
  assert.deepEqual((decode("Service", object).object as Service).details, {
    labels: { app: "web" },
    annotations: { "example.com/note": "n" },
    mapIP: false,
  });
  assert.deepEqual((decode("Node", object).object as Node).details, {
    labels: { app: "web", team: "a" },
    annotations: {},
  });
  assert.equal((decodeObject("Service", object).object as Service).details, undefined);
});

Deno.test("the pods of one node's endpoints are kept, if they are asked for", () => {
  const targetRef = { kind: "Pod", namespace: "other", name: "web-1", uid: "u1" };
  const object = {
    metadata: { name: "web-1", namespace: "default", labels: { "kubernetes.io/service-name": "web" } },
    addressType: "IPv4",
    endpoints: [
      { addresses: ["10.1.0.1"], nodeName: "here", targetRef },
      { addresses: ["10.1.0.2"], nodeName: "here", targetRef: { kind: "Pod", name: "web-2" } },
      { addresses: ["10.1.0.3"], nodeName: "here", targetRef: { kind: "VirtualMachine", name: "vm", uid: "u3" } },
      { addresses: ["10.1.0.4"], nodeName: "here" },
      { addresses: ["10.2.0.1"], nodeName: "there", targetRef },
    ],
  };
  const podsWith = (options: DecodeOptions) =>
    (createDecode(options)("EndpointSlice", object).object as EndpointSlice).endpoints.map(({ pod }) => pod);
  assert.deepEqual(podsWith({ podsOf: (node) => node === "here" }), [
    { namespace: "other", name: "web-1", uid: "u1" },
    { namespace: "default", name: "web-2", uid: "" },
    undefined,
    undefined,
    undefined,
  ]);
  assert.deepEqual(podsWith({}), [undefined, undefined, undefined, undefined, undefined]);
});
