/** Checks explanations against packets through the rules of every mode. */
import { describeMode } from "../../backends/mod.ts";
import assert from "node:assert/strict";
import fc from "fast-check";
import { explain, readQuestion } from "../../answers/mod.ts";
import type { ExplainedService, Outcome } from "../../answers/mod.ts";
import { servesLocalhost } from "../../config/family_settings.ts";
import type { ClusterObject } from "../../core/objects/cluster_object.ts";
import { fakeAnswerBasis, HERE } from "../fakes/answer_basis.ts";
import { endpoint, endpointSlice, node, service } from "../fakes/cluster_objects.ts";
import { MASQUERADED, outcomeShares, type PacketRequest } from "../fakes/packet.ts";
import { BACKENDS, commonSettings, serve } from "../unit/backends/every_backend.ts";
import { runs } from "./runs.ts";

const NODE = "192.168.1.1";
const few = <const T>(...values: readonly T[]) => fc.constantFrom(...values);

const services: fc.Arbitrary<ClusterObject> = fc.record({
  at: few("default/a", "default/b", "other/a"),
  fields: fc.record({
    type: few("ClusterIP", "NodePort", "LoadBalancer"),
    clusterIPs: few(["10.96.0.1"], ["10.96.0.2"], ["10.96.0.3"]),
    externalIPs: few([], ["192.0.2.1"], [NODE], ["192.0.2.1", "10.96.0.2"]),
    loadBalancerIPs: few([], ["192.0.2.2"], ["192.0.2.1", NODE]),
    ports: fc.array(
      fc.record({ name: few("", "x"), protocol: few("tcp", "udp"), port: few(80, 81), nodePort: few(0, 30080) }),
      { minLength: 1, maxLength: 2 },
    ),
    internalPolicyLocal: fc.boolean(),
    externalPolicyLocal: fc.boolean(),
    sourceRanges: few([], ["203.0.113.0/24"], ["10.244.0.0/16", "2001:db8::/32"], [`${NODE}/32`], ["0.0.0.0/0"]),
    affinitySeconds: few(0, 0, 60),
    own: fc.record({
      nodePortAddresses: few(
        undefined,
        undefined,
        NODE,
        "127.0.0.0/8, 10.0.0.0/8",
        "192.168.0.0/16,::/0",
        "::1",
        "none",
      ),
      weights: few(undefined, undefined, `node=${HERE}: 3`, `node=other: 0, node=${HERE}: 2`),
    }),
  }),
}).map(({ at, fields }) => service(at, fields));

const STATES = [
  {},
  { ready: false, serving: true, terminating: true },
  { ready: false, serving: false, terminating: false },
] as const;

const slices: fc.Arbitrary<ClusterObject> = fc.record({
  at: few("default/a-1", "default/b-1", "other/a-1"),
  endpoints: fc.array(
    fc.record({
      host: few(1, 2, 3),
      state: few(...STATES),
      hints: few({}, { zoneHints: ["a"] }, { zoneHints: ["b"] }),
    }),
    { maxLength: 3 },
  ),
}).map(({ at, endpoints }) =>
  endpointSlice(
    at,
    // The first two hosts are in this node's pod CIDR.
    endpoints.map(({ host, state, hints }) =>
      endpoint(host < 3 ? `10.244.1.${host}` : `10.244.2.${host}`, {
        ...state,
        ...hints,
        nodeName: host < 3 ? HERE : "other",
      })
    ),
    {
      ports: [{ name: "", protocol: "tcp", port: 8080 }, { name: "x", protocol: "udp", port: 53 }, {
        name: "x",
        protocol: "tcp",
        port: 53,
      }],
    },
  )
);

const objects = fc.tuple(fc.array(services, { maxLength: 4 }), fc.array(slices, { maxLength: 4 })).map(
  ([some, more]) => [...some, ...more, node(HERE, { zone: "a", addresses: [NODE], podCIDRs: ["10.244.1.0/24"] })],
);

const settings = fc.record({
  localTraffic: few(
    { by: "none" } as const,
    { by: "source-prefix", prefix: "10.244.1.0/24" } as const,
    { by: "source-prefix", prefix: "0.0.0.0/0" } as const,
    { by: "bridge", interface: "cni0" } as const,
    { by: "interface-prefix", prefix: "cn" } as const,
  ),
  masqueradeAll: fc.boolean(),
  nodePortPrefixes: few(undefined, [`${NODE}/32`], ["192.168.2.0/24"], ["127.0.0.0/8", "0.0.0.0/0"]),
  localhostNodePorts: fc.boolean(),
  serviceRanges: few([], ["10.96.0.0/16"]),
});

interface Packet {
  readonly to: string;
  readonly port: number;
  readonly protocol: "tcp" | "udp";
  readonly from: string;
}

const packets: fc.Arbitrary<Packet> = fc.record({
  to: few(
    "10.96.0.1",
    "10.96.0.2",
    "10.96.0.3",
    "192.0.2.1",
    "192.0.2.2",
    NODE,
    "127.0.0.1",
    "198.51.100.1",
    "10.96.0.9",
  ),
  port: few(80, 81, 30080),
  protocol: few("tcp", "udp"),
  from: few("10.244.1.1", "10.244.1.9", "node", "203.0.113.7", "198.51.100.9"),
});

/** The explained outcome of a connection in the form of the fake kernels: shares by result. */
function explained(outcome: Outcome, service: ExplainedService | undefined): Record<string, number> {
  if (outcome.fate !== "balanced") return { [outcome.fate === "untouched" ? "passed" : outcome.fate]: 1 };
  return Object.fromEntries(outcome.endpoints.flatMap((endpoint) => {
    const isMasqueraded = outcome.masquerade!.applies || outcome.hairpin.includes(endpoint);
    const { shares } = service!.endpoints.find(({ target }) => target === endpoint)!;
    const share = Number((shares?.[outcome.policy!] ?? 1 / outcome.endpoints.length).toFixed(4));
    return share === 0 ? [] : [[endpoint + (isMasqueraded ? MASQUERADED : ""), share]];
  }));
}

/** A packet as it comes in: pods' by the pods' interface, others by the other one, the node's own by none. */
function request({ from, ...packet }: Packet): PacketRequest {
  if (from === "node") return { ...packet, from };
  return { ...packet, from: { address: from, interface: from.startsWith("10.244.1.") ? "cni0" : "eth0" } };
}

for (const { name, mode, createKernel } of BACKENDS) {
  Deno.test(`${name}: the explained outcome of a connection equals that of its packet`, async () => {
    await fc.assert(
      fc.asyncProperty(
        objects,
        settings,
        fc.array(packets, { minLength: 40, maxLength: 60 }),
        async (some, changes, sent) => {
          const basis = fakeAnswerBasis(some, {
            settings: commonSettings(mode, {
              ...changes,
              serviceRanges: mode === "nftables" ? changes.serviceRanges : [],
              localhostNodePorts: servesLocalhost(
                "IPv4",
                {
                  featureGates: {},
                  modeDescription: describeMode(mode),
                  iptables: { localhostNodePorts: changes.localhostNodePorts },
                },
                changes.nodePortPrefixes,
              ),
            }),
          });
          const kernel = createKernel();
          const { snapshot } = await serve(mode, kernel);
          assert.deepEqual((await snapshot(basis.planned.IPv4, basis.families.IPv4.settings())).problems, []);
          for (const packet of sent) {
            const { to, port, protocol, from } = packet;
            // Packets from other hosts never arrive at a loopback address.
            if (to === "127.0.0.1" && from !== "node") continue;
            const { outcomes, service } = await explain(readQuestion(`${to}:${port}/${protocol}`, from), basis);
            assert.equal(outcomes.length, 1);
            const outcome = outcomes[0]!;
            assert.deepEqual(
              explained(outcome, service),
              outcomeShares(kernel.host, request(packet)),
              JSON.stringify({ packet, outcome }),
            );
            if (outcome.fate === "balanced") assert.ok(service, "only connections to a service are balanced");
          }
        },
      ),
      runs(40),
    );
  });
}
