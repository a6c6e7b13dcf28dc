import assert from "node:assert/strict";
import { decodeObject } from "../../../../core/objects/decode.ts";
import type { EndpointSlice, SliceEndpoint } from "../../../../core/objects/cluster_object.ts";

type Json = Record<string, unknown>;

const labels = { "kubernetes.io/service-name": "web" };

function manifest(fields: Json, metadata: Json = {}): Json {
  return {
    metadata: { namespace: "default", name: "web-abc", labels, ...metadata },
    addressType: "IPv4",
    ports: [{ name: "http", port: 8080 }],
    ...fields,
  };
}

function decoded(raw: Json): { slice: EndpointSlice; problems: readonly string[] } {
  const { object, problems } = decodeObject("EndpointSlice", raw);
  assert.ok(object?.kind === "EndpointSlice");
  return { slice: object, problems };
}

const plain: SliceEndpoint = {
  address: "10.1.0.1",
  ready: true,
  serving: true,
  terminating: false,
  nodeName: "",
  zone: "",
  zoneHints: undefined,
  nodeHints: undefined,
};

Deno.test("an EndpointSlice keeps every field that load balancing uses", () => {
  const { slice, problems } = decoded(manifest({
    endpoints: [{
      addresses: ["10.1.0.1"],
      conditions: { ready: false, serving: true, terminating: true },
      nodeName: "node-1",
      zone: "zone-a",
      hints: { forZones: [{ name: "zone-b" }, { name: "zone-a" }, { name: "zone-b" }], forNodes: [{ name: "node-1" }] },
    }],
  }, { annotations: { "endpoints.kubernetes.io/last-change-trigger-time": "2024-05-06T07:08:09.123456789Z" } }));
  assert.deepEqual(slice, {
    kind: "EndpointSlice",
    namespace: "default",
    name: "web-abc",
    serviceName: "web",
    family: "IPv4",
    ports: [{ name: "http", protocol: "tcp", port: 8080 }],
    endpoints: [{
      address: "10.1.0.1",
      ready: false,
      serving: true,
      terminating: true,
      nodeName: "node-1",
      zone: "zone-a",
      zoneHints: ["zone-a", "zone-b"],
      nodeHints: ["node-1"],
    }],
    triggerTimeMs: Date.UTC(2024, 4, 6, 7, 8, 9, 123),
  });
  assert.deepEqual(problems, []);
});

const endpoints: Record<string, { endpoint: unknown; gives: Partial<SliceEndpoint> | undefined; problem?: string }> = {
  "without conditions is ready and serving": { endpoint: { addresses: ["10.1.0.1"] }, gives: {} },
  "with conditions of null is ready and serving": {
    endpoint: { addresses: ["10.1.0.1"], conditions: { ready: null, serving: null, terminating: null } },
    gives: {},
  },
  "that is not ready, without more conditions, is serving": {
    endpoint: { addresses: ["10.1.0.1"], conditions: { ready: false } },
    gives: { ready: false, serving: true },
  },
  "counts only with its first address": { endpoint: { addresses: ["10.1.0.1", "10.1.0.2", "example"] }, gives: {} },
  "with empty hints has no hints": {
    endpoint: { addresses: ["10.1.0.1"], hints: { forZones: [], forNodes: null } },
    gives: {},
  },
  "whose address is invalid": {
    endpoint: { addresses: ["example"] },
    gives: undefined,
    problem: 'endpoint 2: address "example" is not an IP address; ignored',
  },
  "whose address is of the other family": {
    endpoint: { addresses: ["fd00::1"] },
    gives: undefined,
    problem: `endpoint 2: address "fd00::1" is not of the slice's family IPv4; ignored`,
  },
  "without addresses": {
    endpoint: { addresses: [] },
    gives: undefined,
    problem: "endpoint 2: no address; ignored",
  },
  "that is null": { endpoint: null, gives: undefined, problem: "endpoint 2: no address; ignored" },
  "whose condition is not a boolean": {
    endpoint: { addresses: ["10.1.0.1"], conditions: { ready: "yes" } },
    gives: undefined,
    problem: 'endpoint 2: condition ready is "yes", not true or false; ignored',
  },
};

for (const [name, { endpoint, gives, problem }] of Object.entries(endpoints)) {
  Deno.test(`an endpoint ${name}`, () => {
    const { slice, problems } = decoded(manifest({ endpoints: [{ addresses: ["10.1.9.9"] }, endpoint] }));
    const first = { ...plain, address: "10.1.9.9" };
    assert.deepEqual(slice.endpoints, gives === undefined ? [first] : [first, { ...plain, ...gives }]);
    assert.deepEqual(problems, problem === undefined ? [] : [problem]);
  });
}

Deno.test("an EndpointSlice's ports get defaults, and unusable ones are ignored", () => {
  const { slice, problems } = decoded(manifest({
    ports: [
      { port: 80 },
      { name: null, port: 53, protocol: "UDP", appProtocol: "dns" },
      { name: "all" },
      { name: "zero", port: 0 },
      { name: "fast", port: 1, protocol: "QUIC" },
      { name: "a b", port: 2 },
    ],
  }));
  assert.deepEqual(slice.ports, [{ name: "", protocol: "tcp", port: 80 }, { name: "", protocol: "udp", port: 53 }]);
  assert.deepEqual(problems, [
    'port 3 ("all"): no port number; ignored',
    'port 4 ("zero"): port number 0 is not between 1 and 65535; ignored',
    'port 5 ("fast"): protocol "QUIC" is not TCP, UDP or SCTP; ignored',
    "port 6: name \"a b\" may only contain letters, digits, '.', '_' and '-', starting with a letter or digit; ignored",
  ]);
});

Deno.test("an EndpointSlice without ports or endpoints is valid", () => {
  const { slice, problems } = decoded(manifest({ ports: null, endpoints: undefined }));
  assert.deepEqual([slice.ports, slice.endpoints, problems], [[], [], []]);
});

Deno.test("the label that names another proxy counts on a Service, not on its EndpointSlices", () => {
  const { slice, problems } = decoded(
    manifest({}, { labels: { ...labels, "service.kubernetes.io/service-proxy-name": "x" } }),
  );
  assert.deepEqual([slice.serviceName, problems], ["web", []]);
});

const irrelevant: Record<string, Json> = {
  "without the label for its service": manifest({}, { labels: {} }),
  "with an empty label for its service": manifest({}, { labels: { "kubernetes.io/service-name": "" } }),
  "of domain names": manifest({ addressType: "FQDN" }),
  "of a headless service": manifest({}, { labels: { ...labels, "service.kubernetes.io/headless": "" } }),
};

for (const [name, raw] of Object.entries(irrelevant)) {
  Deno.test(`an EndpointSlice ${name} is ignored without a problem`, () => {
    assert.deepEqual(decodeObject("EndpointSlice", raw), {
      ref: { kind: "EndpointSlice", namespace: "default", name: "web-abc" },
      object: undefined,
      problems: [],
    });
  });
}

const unusable: Record<string, { raw: Json; problem: RegExp }> = {
  "of an unknown address type": {
    raw: manifest({ addressType: "IPv5" }),
    problem: /^addressType is "IPv5", not IPv4, IPv6 or FQDN; slice ignored$/,
  },
  "of a service with an invalid name": {
    raw: manifest({}, { labels: { "kubernetes.io/service-name": 'x"' } }),
    problem: /^label kubernetes.io\/service-name: "x\\"" may only contain .*; slice ignored$/,
  },
};

for (const [name, { raw, problem }] of Object.entries(unusable)) {
  Deno.test(`an EndpointSlice ${name} cannot be used`, () => {
    const { object, problems } = decodeObject("EndpointSlice", raw);
    assert.equal(object, undefined);
    assert.equal(problems.length, 1);
    assert.match(problems[0]!, problem);
  });
}

Deno.test("an invalid trigger time counts as unknown", () => {
  for (const time of ["yesterday", "2024-99-99T00:00:00Z", 5]) {
    const annotations = { "endpoints.kubernetes.io/last-change-trigger-time": time };
    assert.equal(decoded(manifest({}, { annotations })).slice.triggerTimeMs, 0);
  }
});

Deno.test("equal port lists and equal hints share their memory", () => {
  const one = () =>
    decoded(manifest({ endpoints: [{ addresses: ["10.1.0.1"], hints: { forZones: [{ name: "a" }] } }] }));
  const [left, right] = [one().slice, one().slice];
  assert.equal(left.ports, right.ports);
  assert.equal(left.endpoints[0]!.zoneHints, right.endpoints[0]!.zoneHints);
});
