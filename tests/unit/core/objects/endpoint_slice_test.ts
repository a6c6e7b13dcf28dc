import assert from "node:assert/strict";
import { decodeObject } from "../../../../core/objects/decode.ts";
import type { EndpointSlice, SliceEndpoint } from "../../../../core/objects/endpoint_slice.ts";

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

Deno.test("an EndpointSlice: all that counts of one", () => {
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
  "that is not ready and says no more is taken to serve": {
    endpoint: { addresses: ["10.1.0.1"], conditions: { ready: false } },
    gives: { ready: false, serving: true },
  },
  "counts by its first address alone": { endpoint: { addresses: ["10.1.0.1", "10.1.0.2", "example"] }, gives: {} },
  "with empty hints has none": {
    endpoint: { addresses: ["10.1.0.1"], hints: { forZones: [], forNodes: null } },
    gives: {},
  },
  "whose address is none": {
    endpoint: { addresses: ["example"] },
    gives: undefined,
    problem: 'endpoint 2 has the address "example" which is no IP address; it is left out',
  },
  "whose address is of the other family": {
    endpoint: { addresses: ["fd00::1"] },
    gives: undefined,
    problem: `endpoint 2 has the address "fd00::1" which is not of the slice's family IPv4; it is left out`,
  },
  "without addresses": {
    endpoint: { addresses: [] },
    gives: undefined,
    problem: "endpoint 2 has no address; it is left out",
  },
  "that is null": { endpoint: null, gives: undefined, problem: "endpoint 2 has no address; it is left out" },
  "whose condition is a word": {
    endpoint: { addresses: ["10.1.0.1"], conditions: { ready: "yes" } },
    gives: undefined,
    problem: 'endpoint 2 has the condition ready "yes" which is neither true nor false; it is left out',
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

Deno.test("an EndpointSlice's ports: defaults, and what cannot be used beside what can", () => {
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
    'port 3 ("all") has no port number; it is left out',
    'port 4 ("zero") has the port number 0, which is not between 1 and 65535; it is left out',
    'port 5 ("fast") has the protocol "QUIC" instead of TCP, UDP or SCTP; it is left out',
    "port 6 has the name \"a b\", which may only hold letters, digits, '.', '_' and '-', starting with a letter or digit; " +
    "it is left out",
  ]);
});

Deno.test("an EndpointSlice without ports, or without endpoints, is one all the same", () => {
  const { slice, problems } = decoded(manifest({ ports: null, endpoints: undefined }));
  assert.deepEqual([slice.ports, slice.endpoints, problems], [[], [], []]);
});

Deno.test("an EndpointSlice with another proxy's name is one of ours: the Service's label decides", () => {
  const { slice, problems } = decoded(
    manifest({}, { labels: { ...labels, "service.kubernetes.io/service-proxy-name": "x" } }),
  );
  assert.deepEqual([slice.serviceName, problems], ["web", []]);
});

const noneOfOurs: Record<string, Json> = {
  "without the label for its service": manifest({}, { labels: {} }),
  "with an empty label for its service": manifest({}, { labels: { "kubernetes.io/service-name": "" } }),
  "of domain names": manifest({ addressType: "FQDN" }),
  "of a headless service": manifest({}, { labels: { ...labels, "service.kubernetes.io/headless": "" } }),
};

for (const [name, raw] of Object.entries(noneOfOurs)) {
  Deno.test(`an EndpointSlice ${name} is none of ours, and no problem`, () => {
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
    problem: /^its addressType is "IPv5" instead of IPv4, IPv6 or FQDN; the slice is left out$/,
  },
  "of a service with an impossible name": {
    raw: manifest({}, { labels: { "kubernetes.io/service-name": 'x"' } }),
    problem: /^its label kubernetes.io\/service-name is "x\\"", which may only hold .*; the slice is left out$/,
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

Deno.test("a trigger time that is none counts as not told", () => {
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
