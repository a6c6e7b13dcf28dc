/** Services from the tables of kube-proxy's tests (servicechangetracker_test.go, serviceport.go). */
import assert from "node:assert/strict";
import { FAMILIES, type Family } from "../../../../platform/address.ts";
import { decodeObject } from "../../../../core/objects/decode.ts";
import type { Service } from "../../../../core/objects/cluster_object.ts";
import { planService } from "../../../../core/planning/service_port.ts";
import { createServiceTracker } from "../../../../core/tracking/trackers.ts";
import { rawService } from "../../../fakes/raw_objects.ts";

type Raw = Parameters<typeof rawService>;

function decoded(...raw: Raw): Service {
  const { object } = decodeObject("Service", rawService(...raw));
  assert(object?.kind === "Service");
  return object;
}

/** The service ports by family, each as `name protocol address port` and its other fields. */
function planned(service: Service): Partial<Record<Family, readonly string[]>> {
  const tracker = createServiceTracker();
  tracker.set(`${service.namespace}/${service.name}`, service);
  const served = tracker.get(`${service.namespace}/${service.name}`);
  const found = FAMILIES.map((family) => [family, served === undefined ? [] : portsOf(served, family)] as const);
  return Object.fromEntries(found.filter(([, ports]) => ports.length > 0));
}

function portsOf(service: Service, family: Family): string[] {
  const node = { name: "here", zone: "" };
  return planService({ service, family, node, nodeIP: "192.0.2.1", endpointsOf: () => [] }).map((port) =>
    [
      `${port.name} ${port.protocol} ${port.clusterIP} ${port.port}`,
      ...port.nodePort === 0 ? [] : [`node ${port.nodePort}`],
      ...port.externalIPs.map((address) => `external ${address}`),
      ...port.loadBalancerIPs.map((address) => `balancer ${address}`),
      ...(port.loadBalancerSources?.ranges ?? []).map((range) => `from ${range}`),
      ...port.healthCheckNodePort === 0 ? [] : [`health ${port.healthCheckNodePort}`],
      ...port.affinitySeconds === 0 ? [] : [`affinity ${port.affinitySeconds}`],
    ].join(", ")
  );
}

const port = (name: string, number: number, protocol = "TCP", nodePort = 0) => ({
  name,
  port: number,
  protocol,
  ...nodePort !== 0 && { nodePort },
});
const HTTP = { ports: [port("http", 80)] };
const IPV6 = "2001:db8:85a3:0:0:8a2e:370:7334";
const BALANCED = { type: "LoadBalancer", clusterIP: "172.16.55.11", ports: [port("a", 8675, "UDP", 30061)] };
const BOTH_IPS = [{ ip: "8.8.8.8" }, { ip: "2001:db8:85a3:0:0:8a2e:370:7335" }];
const BOTH = {
  externalIPs: ["9.9.9.9", "2001:db8:85a3:0:0:8a2e:370:7336"],
  loadBalancerSourceRanges: ["0.0.0.0/1", "2001:db8::/32"],
  ...HTTP,
};
const IPV4_PARTS = "external 9.9.9.9, balancer 8.8.8.8, from 0.0.0.0/1";
const IPV6_PARTS = "external 2001:db8:85a3::8a2e:370:7336, balancer 2001:db8:85a3::8a2e:370:7335, from 2001:db8::/32";

const table: readonly (readonly [
  name: string,
  spec: Readonly<Record<string, unknown>>,
  ingress: Raw[2],
  expected: Partial<Record<Family, readonly string[]>>,
])[] = [
  ["a headless service", { type: "ClusterIP", clusterIP: "None", ports: [port("rpc", 1234, "UDP")] }, [], {}],
  ["a headless SCTP service", { type: "ClusterIP", clusterIP: "None", ports: [port("sip", 7777, "SCTP")] }, [], {}],
  ["a headless service without ports", { type: "ClusterIP", clusterIP: "None" }, [], {}],
  ["a service without a cluster IP", { type: "ClusterIP", clusterIP: "", ...HTTP }, [], {}],
  ["an ExternalName service with a cluster IP", { type: "ExternalName", clusterIP: "172.16.55.4", ...HTTP }, [], {}],
  [
    "a ClusterIP service with node ports from an earlier type",
    {
      type: "ClusterIP",
      clusterIP: "172.16.55.4",
      ports: [port("p1", 1234, "UDP", 4321), port("p2", 1235, "UDP", 5321)],
    },
    [],
    { IPv4: ["n/s:p1 udp 172.16.55.4 1234, node 4321", "n/s:p2 udp 172.16.55.4 1235, node 5321"] },
  ],
  [
    "a NodePort service with two protocols",
    { type: "NodePort", clusterIP: "172.16.55.10", ports: [port("p1", 345, "UDP", 678), port("p2", 344, "TCP", 677)] },
    [],
    { IPv4: ["n/s:p1 udp 172.16.55.10 345, node 678", "n/s:p2 tcp 172.16.55.10 344, node 677"] },
  ],
  [
    "a load balancer with an address other than the requested one",
    {
      ...BALANCED,
      loadBalancerIP: "5.6.7.8",
    },
    [{ ip: "10.1.2.4" }],
    { IPv4: ["n/s:a udp 172.16.55.11 8675, node 30061, balancer 10.1.2.4"] },
  ],
  ["ipMode VIP", BALANCED, [{ ip: "10.1.2.4", ipMode: "VIP" }], {
    IPv4: ["n/s:a udp 172.16.55.11 8675, node 30061, balancer 10.1.2.4"],
  }],
  ["ipMode Proxy", BALANCED, [{ ip: "10.1.2.4", ipMode: "Proxy" }], {
    IPv4: ["n/s:a udp 172.16.55.11 8675, node 30061"],
  }],
  ["two addresses, one of them with ipMode VIP", BALANCED, [{ ip: "10.1.2.4", ipMode: "Proxy" }, {
    ip: "10.1.2.5",
    ipMode: "VIP",
  }], { IPv4: ["n/s:a udp 172.16.55.11 8675, node 30061, balancer 10.1.2.5"] }],
  ["a load balancer with only a hostname", BALANCED, [{ hostname: "lb.example" }], {
    IPv4: ["n/s:a udp 172.16.55.11 8675, node 30061"],
  }],
  [
    "external policy Local with a health check",
    {
      ...BALANCED,
      externalTrafficPolicy: "Local",
      healthCheckNodePort: 345,
    },
    [{ ip: "10.1.2.3" }],
    {
      IPv4: ["n/s:a udp 172.16.55.11 8675, node 30061, balancer 10.1.2.3, health 345"],
    },
  ],
  ["a health check port without policy Local", { ...BALANCED, healthCheckNodePort: 345 }, [], {
    IPv4: ["n/s:a udp 172.16.55.11 8675, node 30061"],
  }],
  [
    "a health check port without a load balancer",
    {
      ...BALANCED,
      type: "NodePort",
      externalTrafficPolicy: "Local",
      healthCheckNodePort: 345,
    },
    [],
    { IPv4: ["n/s:a udp 172.16.55.11 8675, node 30061"] },
  ],
  ["an IPv4 cluster IP with addresses of both families", { clusterIP: "10.0.0.1", ...BOTH }, BOTH_IPS, {
    IPv4: [`n/s:http tcp 10.0.0.1 80, ${IPV4_PARTS}`],
  }],
  ["an IPv6 cluster IP with addresses of both families", { clusterIP: IPV6, ...BOTH }, BOTH_IPS, {
    IPv6: [`n/s:http tcp 2001:db8:85a3::8a2e:370:7334 80, ${IPV6_PARTS}`],
  }],
  [
    "cluster IPs of both families, IPv6 first",
    {
      clusterIP: IPV6,
      clusterIPs: [IPV6, "10.0.0.1"],
      ipFamilies: ["IPv6", "IPv4"],
      ...BOTH,
    },
    BOTH_IPS,
    {
      IPv4: [`n/s:http tcp 10.0.0.1 80, ${IPV4_PARTS}`],
      IPv6: [`n/s:http tcp 2001:db8:85a3::8a2e:370:7334 80, ${IPV6_PARTS}`],
    },
  ],
  [
    "addresses with leading zeros",
    {
      clusterIP: "010.000.000.001",
      externalIPs: ["008.008.008.008"],
      loadBalancerSourceRanges: ["010.1.0.0/16"],
      ...HTTP,
    },
    [{ ip: "009.009.009.009" }],
    {
      IPv4: ["n/s:http tcp 10.0.0.1 80, external 8.8.8.8, balancer 9.9.9.9, from 10.1.0.0/16"],
    },
  ],
  [
    "an IPv4-mapped IPv6 address counts as IPv4",
    { clusterIP: "10.0.0.1", externalIPs: ["::ffff:8.8.8.8"], ...HTTP },
    [],
    {
      IPv4: ["n/s:http tcp 10.0.0.1 80, external 8.8.8.8"],
    },
  ],
  [
    "source ranges with spaces and host bits",
    {
      clusterIP: "10.0.0.1",
      loadBalancerSourceRanges: [" 10.1.2.3/28", "10.2.0.0/16 "],
      ...HTTP,
    },
    [],
    { IPv4: ["n/s:http tcp 10.0.0.1 80, from 10.1.2.0/28, from 10.2.0.0/16"] },
  ],
  [
    "a source range of all addresses overrides other ranges",
    {
      clusterIP: "10.0.0.1",
      loadBalancerSourceRanges: ["10.0.0.0/8", "0.0.0.0/0"],
      ...HTTP,
    },
    [],
    { IPv4: ["n/s:http tcp 10.0.0.1 80"] },
  ],
  [
    "a source range of all addresses applies to its own family only",
    {
      clusterIP: "10.0.0.1",
      clusterIPs: ["10.0.0.1", "fd00::1"],
      loadBalancerSourceRanges: ["10.0.0.0/8", "::/0"],
      ...HTTP,
    },
    [],
    { IPv4: ["n/s:http tcp 10.0.0.1 80, from 10.0.0.0/8"], IPv6: ["n/s:http tcp fd00::1 80"] },
  ],
  [
    "ClientIP affinity with a timeout",
    {
      clusterIP: "10.0.0.1",
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 100 } },
      ...HTTP,
    },
    [],
    { IPv4: ["n/s:http tcp 10.0.0.1 80, affinity 100"] },
  ],
  [
    "ClientIP affinity without a timeout uses the API's default",
    {
      clusterIP: "10.0.0.1",
      sessionAffinity: "ClientIP",
      ...HTTP,
    },
    [],
    { IPv4: ["n/s:http tcp 10.0.0.1 80, affinity 10800"] },
  ],
  [
    "a timeout without affinity",
    {
      clusterIP: "10.0.0.1",
      sessionAffinity: "None",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 5 } },
      ...HTTP,
    },
    [],
    { IPv4: ["n/s:http tcp 10.0.0.1 80"] },
  ],
];

for (const [name, spec, ingress, expected] of table) {
  Deno.test(`kube-proxy's services: ${name}`, () => {
    assert.deepEqual(planned(decoded("n/s", spec, ingress)), expected);
  });
}

Deno.test("kube-proxy's service map: adding, changing and deleting services plans only those services", () => {
  const tracker = createServiceTracker();
  const cluster = { type: "ClusterIP", clusterIP: "172.16.55.4", ports: [port("p1", 1234, "UDP"), port("p2", 1235)] };
  const balanced = { ...cluster, type: "LoadBalancer", externalTrafficPolicy: "Local", healthCheckNodePort: 345 };
  const first = decoded("ns1/svc1", cluster);
  const second = decoded("ns1/svc1", balanced, [{ ip: "10.1.2.3" }]);
  for (const [service, changed] of [[first, true], [second, true], [second, false], [first, true]] as const) {
    tracker.set("ns1/svc1", service);
    assert.deepEqual([...tracker.take().keys()], changed ? ["ns1/svc1"] : []);
    assert.equal(tracker.get("ns1/svc1"), changed ? service : second);
  }
  tracker.set("ns1/svc1", decoded("ns1/svc1", { ...cluster, ports: [port("p2", 1235)] }));
  tracker.set("ns2/headless", decoded("ns2/headless", { clusterIP: "None", ports: [port("rpc", 1234, "UDP")] }));
  assert.deepEqual([...tracker.take().keys()], ["ns1/svc1"]);
  assert.equal(tracker.get("ns1/svc1")?.ports.length, 1);
  tracker.delete("ns1/svc1");
  assert.deepEqual([...tracker.take().keys()], ["ns1/svc1"]);
  assert.deepEqual([...tracker.keys()], []);
});
