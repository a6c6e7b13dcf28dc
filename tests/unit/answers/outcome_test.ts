/** The outcomes of connections, by destination, source and mode. */
import assert from "node:assert/strict";
import type { FamilySettings } from "../../../core/model/mod.ts";
import { explain, type Outcome, readQuestion } from "../../../answers/mod.ts";
import { fakeAnswerBasis, HERE } from "../../fakes/answer_basis.ts";
import { endpoint, endpointSlice, node, service } from "../../fakes/cluster_objects.ts";
import { fakeSettings } from "../../fakes/service_port.ts";

const MODES = ["nftables", "iptables", "ipvs", "userspace"];

/** A load balancer: `id` is the last byte of its addresses and part of its node port. */
function balancer(name: string, id: number, fields: object, pods: readonly (readonly [string, string])[]) {
  return [
    service(`default/${name}`, {
      type: "LoadBalancer",
      clusterIPs: [`10.96.0.${id}`],
      loadBalancerIPs: [`192.0.2.${id}`],
      ports: [{ name: "http", protocol: "tcp", port: 80, nodePort: 30000 + id }],
      ...fields,
    }),
    endpointSlice(`default/${name}-1`, pods.map(([address, nodeName]) => endpoint(address, { nodeName }))),
  ];
}

const RANGES = { sourceRanges: ["203.0.113.0/24"] };
const LOCAL = { externalPolicyLocal: true, internalPolicyLocal: true };
const OBJECTS = [
  node(HERE, { addresses: ["192.168.1.1"], podCIDRs: ["10.1.0.0/24"] }),
  ...balancer("both", 1, RANGES, [["10.1.0.1", HERE], ["10.2.0.1", "far"]]),
  ...balancer("local", 2, LOCAL, [["10.1.0.1", HERE], ["10.2.0.1", "far"]]),
  ...balancer("far", 3, LOCAL, [["10.2.0.1", "far"]]),
  ...balancer("none", 4, RANGES, []),
  service("default/guest", {
    clusterIPs: ["10.96.0.5"],
    externalIPs: ["10.96.0.1"],
    ports: [{ name: "http", protocol: "tcp", port: 90, nodePort: 0 }],
    externalPolicyLocal: true,
    type: "NodePort",
  }),
  endpointSlice("default/guest-1", [
    endpoint("10.1.0.1", { nodeName: HERE }),
    endpoint("10.2.0.1", { nodeName: "far" }),
  ]),
];

const SOURCES = ["10.1.0.1", "node", "203.0.113.7", "198.51.100.1"];
const ANY_SOURCES = ["pod", "node", "outside"];

/** An outcome in a few words: `1 cluster, masqueraded: not-from-local-pod`. */
function textOf({ fate, reason, policy, endpoints, masquerade, hairpin, onlySources }: Outcome): string {
  const sources = onlySources ? `, only from ${onlySources}` : "";
  if (fate !== "balanced") return `${fate}: ${reason}${sources}`;
  const snat = `${masquerade!.applies ? "masqueraded" : "kept"}: ${masquerade!.reason}`;
  return `${endpoints.length} ${policy}, ${snat}${hairpin.length > 0 ? ", hairpin" : ""}${sources}`;
}

/** The outcomes at a destination: a line for each one, with its sources and modes. */
async function outcomesAt(to: string, sources: readonly string[], changes: Partial<FamilySettings>): Promise<string[]> {
  const cells = await Promise.all(sources.flatMap((from) =>
    MODES.map(async (mode) => {
      const settings = fakeSettings({
        mode,
        localTraffic: { by: "source-prefix", prefix: "10.1.0.0/24" },
        serviceRanges: ["10.96.0.0/16"],
        ...changes,
      });
      const { outcomes } = await explain(readQuestion(to, from), fakeAnswerBasis(OBJECTS, { settings }));
      return { from, mode, text: textOf(outcomes[0]!) };
    })
  ));
  const bySource = Object.values(Object.groupBy(cells, ({ from, text }) => `${from} ${text}`)).map((group) => {
    const modes = group!.length === MODES.length ? "all modes" : group!.map(({ mode }) => mode).join(", ");
    return { from: group![0]!.from, line: `${modes}: ${group![0]!.text}` };
  });
  return Object.entries(Object.groupBy(bySource, ({ line }) => line)).map(([line, group]) =>
    `${group!.map(({ from }) => from).join(", ")} | ${line}`
  );
}

const NONE_DETECTED = { localTraffic: { by: "none" } } as const;
const LOCALHOST = { nodePortPrefixes: ["127.0.0.0/8"] };

/** The outcomes at the external addresses of a service with traffic policy Local. */
const AT_LOCAL = [
  "10.1.0.1 | nftables, iptables: 2 cluster, kept: from-local-pod, hairpin",
  "10.1.0.1 | ipvs: 1 local, kept: external-policy-local, hairpin",
  "10.1.0.1, node | userspace: 2 cluster, masqueraded: relayed",
  "node | nftables, iptables: 2 cluster, masqueraded: from-this-node",
  "node | ipvs: 1 local, kept: external-policy-local",
  "203.0.113.7, 198.51.100.1 | nftables, iptables, ipvs: 1 local, kept: external-policy-local",
  "203.0.113.7, 198.51.100.1 | userspace: 1 local, masqueraded: relayed",
];

/** The outcomes at the external addresses of one whose endpoints are all on another node. */
const AT_FAR = [
  "10.1.0.1 | nftables, iptables: 1 cluster, kept: from-local-pod",
  "10.1.0.1, node, 203.0.113.7, 198.51.100.1 | ipvs: 1 cluster, kept: external-policy-local",
  "10.1.0.1, node | userspace: 1 cluster, masqueraded: relayed",
  "node | nftables, iptables: 1 cluster, masqueraded: from-this-node",
  "203.0.113.7, 198.51.100.1 | nftables, iptables, userspace: dropped: no-local-endpoints",
];

/** Destinations with further settings, and the outcomes there. */
const CASES: readonly [string, readonly string[], Partial<FamilySettings>, readonly string[]][] = [
  ["10.96.0.1:80", SOURCES, {}, [
    "10.1.0.1 | nftables, iptables, ipvs: 2 cluster, kept: from-local-pod, hairpin",
    "10.1.0.1, node, 203.0.113.7, 198.51.100.1 | userspace: 2 cluster, masqueraded: relayed",
    "node, 203.0.113.7, 198.51.100.1 | nftables, iptables, ipvs: 2 cluster, masqueraded: not-from-local-pod",
  ]],
  ["10.96.0.1:80", ["10.2.0.1"], {}, [
    "10.2.0.1 | nftables, iptables, ipvs: 2 cluster, masqueraded: not-from-local-pod",
    "10.2.0.1 | userspace: 2 cluster, masqueraded: relayed",
  ]],
  ["192.0.2.1:80", SOURCES, {}, [
    "10.1.0.1, node, 198.51.100.1 | all modes: dropped: source-range",
    "203.0.113.7 | nftables, iptables, ipvs: 2 cluster, masqueraded: external-policy-cluster",
    "203.0.113.7 | userspace: 2 cluster, masqueraded: relayed",
  ]],
  ["192.168.1.1:30001", SOURCES, {}, [
    "10.1.0.1 | nftables, iptables, ipvs: 2 cluster, masqueraded: external-policy-cluster, hairpin",
    "10.1.0.1, node, 203.0.113.7, 198.51.100.1 | userspace: 2 cluster, masqueraded: relayed",
    "node, 203.0.113.7, 198.51.100.1 | nftables, iptables, ipvs: 2 cluster, masqueraded: external-policy-cluster",
  ]],
  ["10.96.0.2:80", SOURCES, {}, [
    "10.1.0.1 | nftables, iptables, ipvs: 1 local, kept: from-local-pod, hairpin",
    "10.1.0.1, node, 203.0.113.7, 198.51.100.1 | userspace: 1 local, masqueraded: relayed",
    "node, 203.0.113.7, 198.51.100.1 | nftables, iptables, ipvs: 1 local, masqueraded: not-from-local-pod",
  ]],
  ["192.0.2.2:80", SOURCES, {}, AT_LOCAL],
  ["192.168.1.1:30002", SOURCES, {}, AT_LOCAL],
  ["10.96.0.3:80", SOURCES, {}, [
    "10.1.0.1, node, 203.0.113.7, 198.51.100.1 | nftables, iptables, userspace: dropped: no-local-endpoints",
    "10.1.0.1, node, 203.0.113.7, 198.51.100.1 | ipvs: rejected: no-local-endpoints",
  ]],
  ["192.0.2.3:80", SOURCES, {}, AT_FAR],
  ["192.168.1.1:30003", SOURCES, {}, AT_FAR],
  ["10.96.0.4:80", SOURCES, {}, [
    "10.1.0.1, node, 203.0.113.7, 198.51.100.1 | all modes: rejected: no-endpoints",
  ]],
  ["192.0.2.4:80", SOURCES, {}, [
    "10.1.0.1, 198.51.100.1 | nftables, ipvs: dropped: source-range",
    "10.1.0.1, 198.51.100.1 | iptables, userspace: rejected: no-endpoints",
    "node | nftables: dropped: source-range",
    "node | iptables, userspace: untouched: not-refused-here",
    "node | ipvs: rejected: no-endpoints",
    "203.0.113.7 | all modes: rejected: no-endpoints",
  ]],
  ["192.168.1.1:30004", SOURCES, {}, [
    "10.1.0.1, node, 203.0.113.7, 198.51.100.1 | all modes: rejected: no-endpoints",
  ]],
  ["10.96.0.1:81", ["node"], {}, [
    "node | nftables, ipvs: rejected: unused-port",
    "node | iptables, userspace: untouched: unused-port",
  ]],
  ["192.0.2.1:81", ["node"], {}, [
    "node | nftables, iptables, userspace: untouched: no-service",
    "node | ipvs: rejected: unused-service-port",
  ]],
  ["10.96.9.9:80", ["node"], {}, [
    "node | nftables, iptables, userspace: dropped: unused-address",
    "node | ipvs: untouched: no-service",
  ]],
  ["198.51.100.9:80", ["node"], {}, [
    "node | all modes: untouched: no-service",
  ]],
  ["10.96.0.1:80", SOURCES, { masqueradeAll: true }, [
    "10.1.0.1 | nftables, iptables, ipvs: 2 cluster, masqueraded: masquerade-all, hairpin",
    "10.1.0.1, node, 203.0.113.7, 198.51.100.1 | userspace: 2 cluster, masqueraded: relayed",
    "node, 203.0.113.7, 198.51.100.1 | nftables, iptables, ipvs: 2 cluster, masqueraded: masquerade-all",
  ]],
  ["10.96.0.1:80", SOURCES, NONE_DETECTED, [
    "10.1.0.1 | nftables, iptables, ipvs: 2 cluster, kept: local-traffic-unknown, hairpin",
    "10.1.0.1, node, 203.0.113.7, 198.51.100.1 | userspace: 2 cluster, masqueraded: relayed",
    "node | nftables, iptables: 2 cluster, kept: local-traffic-unknown",
    "node | ipvs: 2 cluster, masqueraded: not-from-local-pod",
    "203.0.113.7, 198.51.100.1 | nftables, iptables, ipvs: 2 cluster, kept: local-traffic-unknown",
  ]],
  ["192.0.2.2:80", ["10.1.0.1", "203.0.113.7"], NONE_DETECTED, [
    "10.1.0.1 | nftables, iptables, ipvs: 1 local, kept: external-policy-local, hairpin",
    "10.1.0.1, 203.0.113.7 | userspace: 1 local, masqueraded: relayed",
    "203.0.113.7 | nftables, iptables, ipvs: 1 local, kept: external-policy-local",
  ]],
  ["192.0.2.2:80", ANY_SOURCES, { localTraffic: { by: "bridge", interface: "cni0" } }, [
    "pod | nftables, iptables: 2 cluster, kept: from-local-pod",
    "pod, node | ipvs: 1 local, kept: external-policy-local",
    "pod, node | userspace: 2 cluster, masqueraded: relayed",
    "node | nftables, iptables: 2 cluster, masqueraded: from-this-node",
    "outside | nftables, iptables, ipvs: 1 local, kept: external-policy-local",
    "outside | userspace: 1 local, masqueraded: relayed",
  ]],
  ["192.0.2.1:80", ANY_SOURCES, {}, [
    "pod, outside | nftables, iptables, ipvs: 2 cluster, masqueraded: external-policy-cluster, only from 203.0.113.0/24",
    "pod, outside | userspace: 2 cluster, masqueraded: relayed, only from 203.0.113.0/24",
    "node | all modes: dropped: source-range",
  ]],
  ["192.0.2.4:80", ANY_SOURCES, {}, [
    "pod, outside | nftables, ipvs: rejected: no-endpoints, only from 203.0.113.0/24",
    "pod, outside | iptables, userspace: rejected: no-endpoints",
    "node | nftables: dropped: source-range",
    "node | iptables, userspace: untouched: not-refused-here",
    "node | ipvs: rejected: no-endpoints",
  ]],
  ["127.0.0.1:30001", ["node"], LOCALHOST, [
    "node | nftables, ipvs, userspace: 2 cluster, masqueraded: relayed",
    "node | iptables: 2 cluster, masqueraded: external-policy-cluster",
  ]],
  ["127.0.0.1:30004", ["node"], LOCALHOST, [
    "node | nftables, ipvs: untouched: not-relayed",
    "node | iptables, userspace: rejected: no-endpoints",
  ]],
  ["192.168.1.1:30004", ["node", "203.0.113.7"], LOCALHOST, [
    "node, 203.0.113.7 | nftables, ipvs: untouched: no-service",
    "node, 203.0.113.7 | iptables, userspace: rejected: no-endpoints",
  ]],
  ["192.168.1.1:30003", ["node", "203.0.113.7"], LOCALHOST, [
    "node, 203.0.113.7 | nftables, ipvs: untouched: no-service",
    "node, 203.0.113.7 | iptables, userspace: dropped: no-local-endpoints",
  ]],
  ["192.168.1.1:99", ["node"], { serviceRanges: ["192.168.0.0/16"] }, [
    "node | all modes: untouched: no-service",
  ]],
  ["192.0.2.2:80", ANY_SOURCES, { localTraffic: { by: "source-prefix", prefix: "0.0.0.0/0" } }, [
    "pod, node, outside | nftables, iptables: 2 cluster, kept: from-local-pod",
    "pod, node, outside | ipvs: 1 local, kept: external-policy-local",
    "pod, node, outside | userspace: 2 cluster, masqueraded: relayed",
  ]],
  ["10.96.0.1:90", SOURCES, {}, [
    "10.1.0.1 | nftables, iptables: 2 cluster, kept: from-local-pod, hairpin",
    "10.1.0.1 | ipvs: 1 local, kept: external-policy-local, hairpin",
    "10.1.0.1, node | userspace: 2 cluster, masqueraded: relayed",
    "node | nftables: 2 cluster, masqueraded: not-from-local-pod",
    "node | iptables: 2 cluster, masqueraded: from-this-node",
    "node | ipvs: 1 local, kept: external-policy-local",
    "203.0.113.7, 198.51.100.1 | nftables: 1 local, masqueraded: not-from-local-pod",
    "203.0.113.7, 198.51.100.1 | iptables, ipvs: 1 local, kept: external-policy-local",
    "203.0.113.7, 198.51.100.1 | userspace: 1 local, masqueraded: relayed",
  ]],
  ["10.96.0.1:90", SOURCES, { masqueradeAll: true }, [
    "10.1.0.1 | nftables: 2 cluster, masqueraded: masquerade-all, hairpin",
    "10.1.0.1 | iptables: 2 cluster, kept: from-local-pod, hairpin",
    "10.1.0.1 | ipvs: 1 local, kept: external-policy-local, hairpin",
    "10.1.0.1, node | userspace: 2 cluster, masqueraded: relayed",
    "node | nftables: 2 cluster, masqueraded: masquerade-all",
    "node | iptables: 2 cluster, masqueraded: from-this-node",
    "node | ipvs: 1 local, kept: external-policy-local",
    "203.0.113.7, 198.51.100.1 | nftables: 1 local, masqueraded: masquerade-all",
    "203.0.113.7, 198.51.100.1 | iptables, ipvs: 1 local, kept: external-policy-local",
    "203.0.113.7, 198.51.100.1 | userspace: 1 local, masqueraded: relayed",
  ]],
];

for (const [to, sources, changes, expected] of CASES) {
  const having = Object.keys(changes).length === 0 ? "" : ` with ${JSON.stringify(changes)}`;
  Deno.test(`the outcome of a connection to ${to}${having} from ${sources.join(", ")}, in each mode`, async () => {
    assert.deepEqual(await outcomesAt(to, sources, changes), expected);
  });
}
