import assert from "node:assert/strict";
import { decodeObject } from "../../../../core/objects/decode.ts";
import type { Service } from "../../../../core/objects/cluster_object.ts";
import { service } from "../../../fakes/cluster_objects.ts";

type Json = Record<string, unknown>;

function manifest(spec: Json, rest: { labels?: Json; annotations?: Json; status?: Json } = {}): Json {
  const { labels, annotations, status } = rest;
  return { metadata: { namespace: "default", name: "web", labels, annotations }, spec, status };
}

const http = { name: "http", port: 80 };

function decoded(raw: Json): { service: Service; problems: readonly string[] } {
  const { ref, object, problems } = decodeObject("Service", raw);
  assert.ok(object?.kind === "Service");
  assert.deepEqual(ref, { kind: "Service", namespace: object.namespace, name: object.name });
  return { service: object, problems };
}

/** A spec, how the decoded service differs from the plain one at 10.0.0.1, and the problems found. */
interface Case {
  readonly spec: Json;
  readonly labels?: Json;
  readonly annotations?: Json;
  readonly status?: Json;
  readonly gives: Partial<Service>;
  readonly problems?: readonly string[];
}

Deno.test("services with the same selector, and no others, have the same hash of it", () => {
  const hashOf = (selector: Json | undefined) => decoded(manifest({ selector })).service.selector;
  assert.equal(hashOf({ app: "web", color: "blue" }), hashOf({ app: "web", color: "blue" }));
  assert.notEqual(hashOf({ app: "web", color: "blue" }), hashOf({ app: "web", color: "green" }));
  assert.notEqual(hashOf({}), undefined);
  assert.equal(hashOf(undefined), undefined);
});

const cases: Record<string, Case> = {
  "a plain service": { spec: {}, gives: {} },
  "two cluster IPs, one of each family, in canonical form": {
    spec: { clusterIP: "10.0.0.1", clusterIPs: ["010.0.0.1", "FD00:0::1"], ipFamilies: ["IPv4", "IPv6"] },
    gives: { clusterIPs: ["10.0.0.1", "fd00::1"] },
  },
  "clusterIP alone": { spec: { clusterIP: "10.9.9.9" }, gives: { clusterIPs: ["10.9.9.9"] } },
  "a headless service": { spec: { clusterIP: "None", clusterIPs: ["None"] }, gives: { clusterIPs: [] } },
  "no cluster IP": { spec: { clusterIP: undefined }, gives: { clusterIPs: [] } },
  "an ExternalName service has no cluster IP": {
    spec: { type: "ExternalName", externalName: "example.org" },
    gives: { type: "ExternalName", clusterIPs: [] },
  },
  "an invalid cluster IP": {
    spec: { clusterIPs: ["example", "fd00::1"] },
    gives: { clusterIPs: ["fd00::1"] },
    problems: ['cluster IP "example" is not an IP address; ignored'],
  },
  "a cluster IP of the wrong family": {
    spec: { clusterIPs: ["fd00::1"], ipFamilies: ["IPv4"] },
    gives: { clusterIPs: [] },
    problems: ['cluster IP "fd00::1" is not of the family "IPv4" in spec.ipFamilies; ignored'],
  },
  "two cluster IPs of one family": {
    spec: { clusterIPs: ["10.0.0.1", "10.0.0.2"] },
    gives: { clusterIPs: ["10.0.0.1"] },
    problems: ['cluster IP "10.0.0.2" is a second IPv4 address; ignored'],
  },
  "an unknown type": {
    spec: { type: "Gateway" },
    gives: {},
    problems: [
      'spec.type is "Gateway", not ClusterIP, NodePort, LoadBalancer or ExternalName; using ClusterIP',
    ],
  },
  "external IPs, without empty ones": {
    spec: { externalIPs: ["192.0.2.1", "", "192.0.2.300", "192.0.2.1", "2001:DB8::1"] },
    gives: { externalIPs: ["192.0.2.1", "2001:db8::1"] },
    problems: ['spec.externalIPs: "192.0.2.300" is not an IP address; ignored'],
  },
  "load balancer IPs by ipMode": {
    spec: { type: "LoadBalancer" },
    status: {
      loadBalancer: {
        ingress: [
          { ip: "192.0.2.1" },
          { ip: "192.0.2.2", ipMode: "VIP" },
          { ip: "192.0.2.3", ipMode: "Proxy" },
          { ip: "192.0.2.4", ipMode: "Magic" },
          { hostname: "lb.example.org" },
          { ip: "lb.example.org" },
        ],
      },
    },
    gives: { type: "LoadBalancer", loadBalancerIPs: ["192.0.2.1", "192.0.2.2"], proxiedIPs: ["192.0.2.3"] },
    problems: [
      'load balancer IP "192.0.2.4" has ipMode "Magic", not VIP or Proxy; ignored',
      'load balancer IP "lb.example.org" is not an IP address; ignored',
    ],
  },
  "source ranges, trimmed and with host bits cleared": {
    spec: { loadBalancerSourceRanges: [" 10.1.2.3/8", "fd00::1/64 ", "10.0.0.0", "10.0.0.0/33"] },
    gives: { sourceRanges: ["10.0.0.0/8", "fd00::/64"] },
    problems: [
      'spec.loadBalancerSourceRanges: "10.0.0.0" is not a CIDR; ignored',
      'spec.loadBalancerSourceRanges: "10.0.0.0/33" is not a CIDR; ignored',
    ],
  },
  "only invalid source ranges": {
    spec: { loadBalancerSourceRanges: ["office"] },
    gives: { sourceRanges: [] },
    problems: [
      'spec.loadBalancerSourceRanges: "office" is not a CIDR; ignored',
      "spec.loadBalancerSourceRanges has no usable CIDR; all clients are allowed",
    ],
  },
  "the old annotation for source ranges is ignored": {
    spec: {},
    annotations: { "service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.0/8" },
    gives: { sourceRanges: [] },
  },
  "affinity with its default timeout": { spec: { sessionAffinity: "ClientIP" }, gives: { affinitySeconds: 10800 } },
  "affinity with a timeout": {
    spec: { sessionAffinity: "ClientIP", sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } } },
    gives: { affinitySeconds: 60 },
  },
  "a timeout without affinity": {
    spec: { sessionAffinity: "None", sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } } },
    gives: { affinitySeconds: 0 },
  },
  "an affinity timeout out of range": {
    spec: { sessionAffinity: "ClientIP", sessionAffinityConfig: { clientIP: { timeoutSeconds: 86401 } } },
    gives: { affinitySeconds: 10800 },
    problems: ["affinity timeoutSeconds is 86401, not between 1 and 86400; using 10800"],
  },
  "an internal traffic policy": { spec: { internalTrafficPolicy: "Local" }, gives: { internalPolicyLocal: true } },
  "an unknown internal traffic policy": {
    spec: { internalTrafficPolicy: "Nearby" },
    gives: { internalPolicyLocal: false },
    problems: ['spec.internalTrafficPolicy is "Nearby", not Cluster or Local; using Cluster'],
  },
  "an external traffic policy of a node port": {
    spec: { type: "NodePort", externalTrafficPolicy: "Local" },
    gives: { type: "NodePort", externalPolicyLocal: true },
  },
  "an external traffic policy of a service with an external IP": {
    spec: { externalTrafficPolicy: "Local", externalIPs: ["192.0.2.1"] },
    gives: { externalPolicyLocal: true, externalIPs: ["192.0.2.1"] },
  },
  "an external traffic policy of a service without external traffic": {
    spec: { externalTrafficPolicy: "Local" },
    gives: { externalPolicyLocal: false },
  },
  "a health check node port": {
    spec: { type: "LoadBalancer", externalTrafficPolicy: "Local", healthCheckNodePort: 30123 },
    gives: { type: "LoadBalancer", externalPolicyLocal: true, healthCheckNodePort: 30123 },
  },
  "a missing health check node port": {
    spec: { type: "LoadBalancer", externalTrafficPolicy: "Local" },
    gives: { type: "LoadBalancer", externalPolicyLocal: true },
    problems: ["spec.healthCheckNodePort is missing; load balancers cannot check whether this node has endpoints"],
  },
  "a health check node port under policy Cluster": {
    spec: { type: "LoadBalancer", healthCheckNodePort: 30123 },
    gives: { type: "LoadBalancer", healthCheckNodePort: 0 },
  },
  "a health check node port of a NodePort service": {
    spec: { type: "NodePort", externalTrafficPolicy: "Local", healthCheckNodePort: 30123 },
    gives: { type: "NodePort", externalPolicyLocal: true, healthCheckNodePort: 0 },
  },
  "a label that names another proxy, even if empty": {
    spec: {},
    labels: { "service.kubernetes.io/service-proxy-name": "" },
    gives: { ignored: true },
  },
  "the label of cluster DNS": {
    spec: {},
    labels: { "k8s-app": "kube-dns" },
    gives: { isClusterDNS: true },
  },
  "another application's label": {
    spec: {},
    labels: { "k8s-app": "metrics-server" },
    gives: {},
  },
  "the label for headless services, which is meaningless on a Service": {
    spec: {},
    labels: { "service.kubernetes.io/headless": "" },
    gives: { ignored: false },
  },
  "ports of every protocol": {
    spec: {
      ports: [{ port: 53, protocol: "UDP", nodePort: 30053 }, { port: 53, protocol: "TCP" }, {
        name: "s",
        port: 9,
        protocol: "SCTP",
      }],
    },
    gives: {
      ports: [
        { name: "", protocol: "udp", port: 53, nodePort: 30053 },
        { name: "", protocol: "tcp", port: 53, nodePort: 0 },
        { name: "s", protocol: "sctp", port: 9, nodePort: 0 },
      ],
    },
  },
  "unusable ports beside a usable one": {
    spec: {
      ports: [
        { name: "zero", port: 0 },
        http,
        { name: "text", port: "80" },
        { name: "none" },
        { name: "fast", port: 1, protocol: "QUIC" },
        { name: 'x" -j ACCEPT', port: 2 },
        { name: "http", port: 3 },
        { name: "again", port: 80 },
        "port",
      ],
    },
    gives: {},
    problems: [
      'port 1 ("zero"): port number 0 is not between 1 and 65535; ignored',
      'port 3 ("text"): port number "80" is not between 1 and 65535; ignored',
      'port 4 ("none"): no port number; ignored',
      'port 5 ("fast"): protocol "QUIC" is not TCP, UDP or SCTP; ignored',
      "port 6: name \"x\\\" -j ACCEPT\" may only contain letters, digits, '.', '_' and '-', starting with a letter or " +
      "digit; ignored",
      "port 7: same name and protocol as an earlier port; ignored",
      "port 8: same number and protocol as an earlier port; ignored",
      "port 9: no port number; ignored",
    ],
  },
  "a port whose node port is out of range is served without it": {
    spec: { ports: [{ ...http, nodePort: 65536 }] },
    gives: {},
    problems: [
      'port 1 ("http"): nodePort 65536 is not between 0 and 65535; serving without a node port',
    ],
  },
  "ports that are not a list": {
    spec: { ports: { http: 80 } },
    gives: { ports: [] },
    problems: ["spec.ports is an object, not a list; ignored"],
  },
};

for (const [name, { spec, gives, problems = [], ...rest }] of Object.entries(cases)) {
  Deno.test(`a Service: ${name}`, () => {
    const result = decoded(manifest({ clusterIP: "10.0.0.1", ports: [http], ...spec }, rest));
    assert.deepEqual(result.service, service("default/web", gives));
    assert.deepEqual(result.problems, problems);
  });
}

const misnamed: Record<string, { metadata: unknown; problem: RegExp }> = {
  "no metadata": { metadata: undefined, problem: /^Service has no name; ignored$/ },
  "a name with a quote": {
    metadata: { name: 'a"b', namespace: "x" },
    problem: /^Service: name "a\\"b" may only contain/,
  },
  "a name with a newline": {
    metadata: { name: "a\nb", namespace: "x" },
    problem: /^Service: name "a\\nb" may only contain/,
  },
  "a name that looks like an option": {
    metadata: { name: "-j", namespace: "x" },
    problem: /^Service: name "-j" may only contain/,
  },
  "a name of 64 characters": {
    metadata: { name: "a".repeat(64), namespace: "x" },
    problem: /^Service: name "a+" is longer than 63 characters; ignored$/,
  },
  "no namespace": { metadata: { name: "web" }, problem: /^Service web has no namespace; ignored$/ },
  "a namespace with a space": {
    metadata: { name: "web", namespace: "a b" },
    problem: /^Service web: namespace "a b" may only contain/,
  },
};

for (const [name, { metadata, problem }] of Object.entries(misnamed)) {
  Deno.test(`a Service with ${name} cannot be used`, () => {
    const { ref, object, problems } = decodeObject("Service", { metadata, spec: { clusterIP: "10.0.0.1" } });
    assert.equal(ref, undefined);
    assert.equal(object, undefined);
    assert.equal(problems.length, 1);
    assert.match(problems[0]!, problem);
  });
}

Deno.test("a hundred bad ports become ten sentences and a count", () => {
  const ports = Array.from({ length: 100 }, (_, index) => ({ name: `p${index}`, port: 0 }));
  const { problems } = decoded(manifest({ ports }));
  assert.equal(problems.length, 11);
  assert.equal(problems[10], "90 more parts cannot be used and are ignored");
});

Deno.test("of the annotations, only Sluice's own are kept", () => {
  const annotations = {
    "sluice.dev/balance": "consistent-hash",
    "sluice.dev/weights": 3,
    "sluice.dev/affinity-hash": null,
    "sluice.dev/node-port-addresses": "10.0.0.1",
    other: "x",
  };
  const { service: kept } = decoded(manifest({ ports: [http] }, { annotations }));
  assert.deepEqual(kept.own, { balance: "consistent-hash", weights: "3", nodePortAddresses: "10.0.0.1" });
  const without = decoded(manifest({ ports: [http] }, { annotations: { other: "x" } })).service;
  assert.equal("own" in without, false);
  const empty = decoded(manifest({ ports: [http] }, { annotations: { "sluice.dev/node-port-addresses": "" } })).service;
  assert.equal(empty.own?.nodePortAddresses, "", "an empty list is one");
});

Deno.test("a balancing annotation that is too long is not kept, and stays recognizable as too long", () => {
  const weights = (length: number) => {
    const annotations = { "sluice.dev/weights": "x".repeat(length) };
    return decoded(manifest({ ports: [http] }, { annotations })).service.own!.weights!;
  };
  assert.equal(weights(4096), "x".repeat(4096));
  assert.deepEqual([weights(4097).length, weights(4097).trim()], [4097, ""]);
  assert.equal(weights(250_000), weights(4097));
});

Deno.test("the time of creation is kept in seconds, and a time that is none is unknown", () => {
  const createdAt = (creationTimestamp: unknown) => {
    const raw = manifest({ ports: [http] });
    return decoded({ ...raw, metadata: { ...raw.metadata as Json, creationTimestamp } }).service.createdSeconds;
  };
  assert.equal(createdAt("2023-11-14T22:13:20Z"), 1_700_000_000);
  for (const time of [undefined, null, "", "yesterday", "1960-01-01T00:00:00Z", 5]) {
    assert.equal(createdAt(time), undefined, String(time));
  }
});

Deno.test("a problem names the field with the wrong type", () => {
  const lists = ["clusterIPs", "ipFamilies", "externalIPs", "loadBalancerSourceRanges", "ports"];
  for (const field of lists) {
    const { problems } = decoded(manifest({ clusterIP: "10.0.0.1", [field]: 7 }));
    assert.ok(problems.some((problem) => problem.includes(`spec.${field}`)), `${field}: ${problems.join()}`);
  }
});

/** A spec with a number, that number of the decoded service, and the least and the greatest one that is used. */
const LIMITS: readonly (readonly [
  name: string,
  specOf: (value: number) => Json,
  read: (service: Service) => number | undefined,
  least: number,
  most: number,
])[] = [
  ["port", (port) => ({ ports: [{ port }] }), ({ ports }) => ports[0]?.port, 1, 65_535],
  [
    "nodePort",
    (nodePort) => ({ type: "NodePort", ports: [{ port: 80, nodePort }] }),
    ({ ports }) => ports[0]?.nodePort,
    ...[0, 65_535] as const,
  ],
  [
    "healthCheckNodePort",
    (healthCheckNodePort) => ({ type: "LoadBalancer", externalTrafficPolicy: "Local", healthCheckNodePort }),
    ({ healthCheckNodePort }) => healthCheckNodePort,
    ...[1, 65_535] as const,
  ],
  [
    "timeoutSeconds",
    (timeoutSeconds) => ({ sessionAffinity: "ClientIP", sessionAffinityConfig: { clientIP: { timeoutSeconds } } }),
    ({ affinitySeconds }) => affinitySeconds,
    ...[1, 86_400] as const,
  ],
];

for (const [name, specOf, read, least, most] of LIMITS) {
  Deno.test(`${name} is used from ${least} to ${most}, and a problem outside`, () => {
    for (const [value, isUsed] of [[least - 1, false], [least, true], [most, true], [most + 1, false]] as const) {
      const { service, problems } = decoded(manifest({ clusterIP: "10.0.0.1", ...specOf(value) }));
      assert.deepEqual(problems.length === 0, isUsed, `${value}: ${problems}`);
      if (isUsed) assert.equal(read(service), value);
    }
  });
}
