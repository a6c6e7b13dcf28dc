import assert from "node:assert/strict";
import type { Family, ServicePort, Verdict } from "../../../../core/model/mod.ts";
import type { Service } from "../../../../core/objects/cluster_object.ts";
import type { SliceEndpoint } from "../../../../core/objects/cluster_object.ts";
import { planService } from "../../../../core/planning/service_port.ts";
import { joinHostPort } from "../../../../platform/address.ts";
import { endpoint, service, terminatingEndpoint } from "../../../fakes/cluster_objects.ts";

function plan(
  fields: Partial<Service>,
  endpoints: readonly SliceEndpoint[] = [],
  family: Family = "IPv4",
  unreachable?: ReadonlySet<string>,
) {
  return planService({
    unreachable,
    service: service("default/web", fields),
    family,
    node: { name: "here", zone: "" },
    nodeIP: "203.0.113.9",
    endpointsOf: () => endpoints.map((each) => ({ target: joinHostPort(each.address, 8080), endpoint: each })),
  });
}

function planOne(...args: Parameters<typeof plan>): ServicePort {
  const [port, ...others] = plan(...args);
  assert.deepEqual(others, []);
  return port!;
}

const NODE_PORT = { name: "http", protocol: "tcp", port: 80, nodePort: 30080 } as const;
const REMOTE = endpoint("10.1.0.1");
const LOCAL = endpoint("10.1.0.2", { nodeName: "here" });
const BOTH = ["10.1.0.1:8080", "10.1.0.2:8080"];

Deno.test("a ClusterIP service", () => {
  assert.deepEqual(planOne({}, [REMOTE, LOCAL]), {
    name: "default/web:http",
    protocol: "tcp",
    clusterIP: "10.0.0.1",
    port: 80,
    externalIPs: [],
    loadBalancerIPs: [],
    nodePort: 0,
    healthCheckNodePort: 0,
    internal: "cluster",
    external: "cluster",
    clusterEndpoints: ["10.1.0.1:8080", "10.1.0.2:8080"],
    localEndpoints: [],
    endpointsOnThisNode: ["10.1.0.2:8080"],
    lingeringEndpoints: [],
    affinitySeconds: 0,
    loadBalancerSources: undefined,
  });
});

const ways: readonly { readonly name: string; readonly endpoints: readonly SliceEndpoint[] }[] = [
  { name: "remote and local", endpoints: [REMOTE, LOCAL] },
  { name: "remote", endpoints: [REMOTE] },
  { name: "none", endpoints: [] },
];

const policyTable: {
  readonly internalPolicyLocal: boolean;
  readonly externalPolicyLocal: boolean;
  /** The verdicts internal/external by the endpoints there are: remote and local, remote, none. */
  readonly verdicts: readonly (readonly [Verdict, Verdict])[];
}[] = [
  {
    internalPolicyLocal: false,
    externalPolicyLocal: false,
    verdicts: [["cluster", "cluster"], ["cluster", "cluster"], ["reject", "reject"]],
  },
  {
    internalPolicyLocal: false,
    externalPolicyLocal: true,
    verdicts: [["cluster", "local"], ["cluster", "drop"], ["reject", "reject"]],
  },
  {
    internalPolicyLocal: true,
    externalPolicyLocal: false,
    verdicts: [["local", "cluster"], ["drop", "cluster"], ["reject", "reject"]],
  },
  {
    internalPolicyLocal: true,
    externalPolicyLocal: true,
    verdicts: [["local", "local"], ["drop", "drop"], ["reject", "reject"]],
  },
];

for (const { internalPolicyLocal, externalPolicyLocal, verdicts } of policyTable) {
  for (const [i, { name, endpoints }] of ways.entries()) {
    const policies = `internal ${internalPolicyLocal ? "Local" : "Cluster"}, external ${
      externalPolicyLocal ? "Local" : "Cluster"
    }`;
    Deno.test(`policies ${policies}, endpoints ${name}`, () => {
      const fields = { type: "NodePort", ports: [NODE_PORT], internalPolicyLocal, externalPolicyLocal } as const;
      const port = planOne(fields, endpoints);
      assert.deepEqual([port.internal, port.external], verdicts[i]);
      // The node's own traffic to the node port goes by policy Cluster, whatever the policies.
      assert.deepEqual(port.clusterEndpoints, endpoints.map(({ address }) => `${address}:8080`));
      const usesLocal = internalPolicyLocal || externalPolicyLocal;
      assert.deepEqual(port.localEndpoints, usesLocal && endpoints.includes(LOCAL) ? ["10.1.0.2:8080"] : []);
    });
  }
}

Deno.test("no endpoints for policy Cluster if all traffic is internal and the policy Local", () => {
  const port = planOne({ internalPolicyLocal: true }, [REMOTE, LOCAL]);
  assert.deepEqual([port.internal, port.clusterEndpoints, port.localEndpoints], ["local", [], ["10.1.0.2:8080"]]);
  assert.deepEqual(port.endpointsOnThisNode, ["10.1.0.2:8080"]);
  assert.equal(planOne({ internalPolicyLocal: true }, [REMOTE]).internal, "drop");
});

Deno.test("the external policy has no effect on a service without external frontends", () => {
  const port = planOne({ externalPolicyLocal: true }, [REMOTE]);
  assert.deepEqual([port.internal, port.external, port.localEndpoints], ["cluster", "cluster", []]);
});

Deno.test("the external policy applies to external IPs of a ClusterIP service", () => {
  const port = planOne({ externalPolicyLocal: true, externalIPs: ["192.0.2.9"] }, [REMOTE]);
  assert.deepEqual([port.internal, port.external], ["cluster", "drop"]);
});

Deno.test("a terminating endpoint on this node still serves policy Local", () => {
  const last = terminatingEndpoint("10.1.0.3", { nodeName: "here" });
  const port = planOne({ type: "NodePort", ports: [NODE_PORT], externalPolicyLocal: true }, [REMOTE, last]);
  assert.deepEqual([port.external, port.localEndpoints], ["local", ["10.1.0.3:8080"]]);
  assert.deepEqual(port.clusterEndpoints, ["10.1.0.1:8080"]);
  assert.deepEqual(port.endpointsOnThisNode, ["10.1.0.3:8080"]);
});

Deno.test("only UDP endpoints linger", () => {
  const ending = terminatingEndpoint("10.1.0.3");
  for (const [protocol, expected] of [["tcp", []], ["sctp", []], ["udp", ["10.1.0.3:8080"]]] as const) {
    const port = planOne({ ports: [{ name: "", protocol, port: 53, nodePort: 0 }] }, [REMOTE, ending]);
    assert.deepEqual(port.lingeringEndpoints, expected);
  }
});

Deno.test("only TCP endpoints are left out for not answering: attempts of other protocols are not counted", () => {
  for (const [protocol, used] of [["tcp", ["10.1.0.2:8080"]], ["udp", BOTH], ["sctp", BOTH]] as const) {
    const ports = [{ name: "", protocol, port: 53, nodePort: 0 }];
    const port = planOne({ ports }, [REMOTE, LOCAL], "IPv4", new Set(["10.1.0.1:8080"]));
    assert.deepEqual(port.clusterEndpoints, used);
  }
});

Deno.test("each family has its own addresses and source ranges, and shares the ports", () => {
  const fields: Partial<Service> = {
    type: "LoadBalancer",
    clusterIPs: ["10.0.0.1", "fd00::1"],
    externalIPs: ["192.0.2.9", "2001:db8::9"],
    loadBalancerIPs: ["2001:db8::8", "192.0.2.8"],
    sourceRanges: ["203.0.113.0/24", "2001:db8:1::/48"],
    ports: [NODE_PORT],
    affinitySeconds: 10800,
  };
  const families = { IPv4: planOne(fields, [], "IPv4"), IPv6: planOne(fields, [], "IPv6") };
  assert.deepEqual(
    Object.entries(families).map(([family, port]) => [
      family,
      port.clusterIP,
      port.externalIPs,
      port.loadBalancerIPs,
      port.loadBalancerSources,
      port.nodePort,
      port.affinitySeconds,
    ]),
    [
      [
        "IPv4",
        "10.0.0.1",
        ["192.0.2.9"],
        ["192.0.2.8"],
        { ranges: ["203.0.113.0/24"], includeNode: true },
        30080,
        10800,
      ],
      [
        "IPv6",
        "fd00::1",
        ["2001:db8::9"],
        ["2001:db8::8"],
        { ranges: ["2001:db8:1::/48"], includeNode: false },
        30080,
        10800,
      ],
    ],
  );
});

Deno.test("a family without a cluster IP has no service port", () => {
  assert.deepEqual(plan({ clusterIPs: ["fd00::1"], externalIPs: ["192.0.2.9"], ports: [NODE_PORT] }), []);
});

Deno.test("external addresses of the other family are not external frontends", () => {
  const port = planOne({ type: "LoadBalancer", loadBalancerIPs: ["2001:db8::8"], externalPolicyLocal: true }, [REMOTE]);
  assert.deepEqual([port.external, port.localEndpoints], ["cluster", []]);
});

for (
  const { name, sourceRanges, expected } of [
    { name: "none", sourceRanges: [], expected: undefined },
    { name: "ranges of the other family alone", sourceRanges: ["2001:db8::/32"], expected: undefined },
    { name: "a range that is every address", sourceRanges: ["0.0.0.0/0", "10.0.0.0/8"], expected: undefined },
    {
      name: "ranges without the node's address",
      sourceRanges: ["10.0.0.0/8"],
      expected: { ranges: ["10.0.0.0/8"], includeNode: false },
    },
    {
      name: "ranges with the node's address",
      sourceRanges: ["203.0.113.8/30", "10.0.0.0/8"],
      expected: { ranges: ["10.0.0.0/8", "203.0.113.8/30"], includeNode: true },
    },
  ]
) {
  Deno.test(`who may use a load balancer IP, with source ranges: ${name}`, () => {
    assert.deepEqual(planOne({ sourceRanges }).loadBalancerSources, expected);
  });
}

Deno.test("an address in several lists is one frontend; load balancer IPs take precedence", () => {
  const port = planOne({
    externalIPs: ["192.0.2.2", "192.0.2.1", "192.0.2.2", "10.0.0.1", "192.0.2.3"],
    loadBalancerIPs: ["192.0.2.3", "192.0.2.3", "10.0.0.1"],
  });
  assert.deepEqual([port.externalIPs, port.loadBalancerIPs], [["192.0.2.1", "192.0.2.2"], ["192.0.2.3"]]);
});

Deno.test("the unspecified address, which stands for the node's in rules, is no frontend", () => {
  for (const [family, own, any] of [["IPv4", "10.0.0.1", "0.0.0.0"], ["IPv6", "fd00::1", "::"]] as const) {
    const { loadBalancerIPs, externalIPs } = planOne(
      { clusterIPs: [own], loadBalancerIPs: [any], externalIPs: [any] },
      [],
      family,
    );
    assert.deepEqual([loadBalancerIPs, externalIPs], [[], []]);
    assert.deepEqual(plan({ clusterIPs: [any] }, [], family), []);
  }
});

Deno.test("a load balancer in ipMode Proxy, whose IPs are not decoded, has node ports only", () => {
  const port = planOne({ type: "LoadBalancer", loadBalancerIPs: [], ports: [NODE_PORT] }, [REMOTE]);
  assert.deepEqual([port.loadBalancerIPs, port.nodePort, port.external], [[], 30080, "cluster"]);
});

Deno.test("the health check port is that of a load balancer with external policy Local", () => {
  const port = (fields: Partial<Service>) =>
    planOne({ ports: [NODE_PORT], healthCheckNodePort: 32000, ...fields }).healthCheckNodePort;
  assert.equal(port({ type: "LoadBalancer", externalPolicyLocal: true }), 32000);
  assert.equal(port({ type: "LoadBalancer", externalPolicyLocal: false }), 0);
  assert.equal(port({ type: "NodePort", externalPolicyLocal: true }), 0);
});

Deno.test("ports differ by name and protocol; of two equal ones the last counts", () => {
  const ports = plan({
    ports: [
      { name: "dns", protocol: "tcp", port: 53, nodePort: 0 },
      { name: "dns", protocol: "udp", port: 53, nodePort: 0 },
      { name: "dns", protocol: "tcp", port: 54, nodePort: 0 },
      { name: "", protocol: "sctp", port: 9, nodePort: 0 },
    ],
  });
  assert.deepEqual(ports.map(({ name, protocol, port }) => [name, protocol, port]), [
    ["default/web:dns", "udp", 53],
    ["default/web:dns", "tcp", 54],
    ["default/web", "sctp", 9],
  ]);
});
