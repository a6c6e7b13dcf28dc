/** The relay with real connections: userspace mode, and node ports at localhost in nftables mode. */
import assert from "node:assert/strict";
import type { Attempt } from "../../demo/agent.ts";
import { type Lab, type Namespace, NETWORK } from "../../demo/lab.ts";
import { program, startSluice } from "../../demo/sluice.ts";
import { systemClock } from "../../platform/clock.ts";
import { errorText } from "../../platform/log.ts";
import { waitFor } from "../chaos/wait.ts";
import { inLab } from "./in_lab.ts";

type Target = Omit<Attempt, "timeoutMs">;

const TCP = { protocol: "tcp", port: 80 } as const;
const WEB = { ...TCP, address: "10.96.0.10" }, WEB_IPV6 = { ...TCP, address: "fd00:10:96::a" };
const NAMES = { protocol: "udp", address: "10.96.0.53", port: 53 } as const;
const GUARDED = { ...TCP, address: "198.51.100.30" };
const GUARDED_IPV6 = { ...TCP, address: "fd00:10:96::90" };
const NODE_PORT = 30090;
const NODE = Object.values(NETWORK.node);
/** With three endpoints at random, the chance that one is missed is about 10^-8. */
const CONNECTIONS = 45;
const SERVED_WITHIN_MS = 20_000;

/** A load balancer that admits nobody in the lab, with one endpoint that serves and one whose port is closed. */
const GUARDED_MANIFEST = `apiVersion: v1
kind: Service
metadata: { name: guarded, namespace: default }
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.90
  clusterIPs: [10.96.0.90, "${GUARDED_IPV6.address}"]
  ipFamilies: [IPv4, IPv6]
  selector: { app: guarded }
  loadBalancerSourceRanges: [198.18.0.0/15]
  ports:
    - { name: http, port: 80, targetPort: 8080, nodePort: ${NODE_PORT}, protocol: TCP }
    - { name: dns, port: 53, targetPort: 8080, nodePort: ${NODE_PORT}, protocol: UDP }
status:
  loadBalancer:
    ingress: [{ ip: ${GUARDED.address}, ipMode: VIP }]
`;

function slice(name: string, family: "IPv4" | "IPv6", pod: "pod-1" | "pod-2", port: number, protocol = "TCP"): string {
  return `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: guarded-${name}, namespace: default, labels: { kubernetes.io/service-name: guarded } }
addressType: ${family}
ports: [{ name: ${protocol === "TCP" ? "http" : "dns"}, port: ${port}, protocol: ${protocol} }]
endpoints: [{ addresses: ["${NETWORK.pods[pod][family]}"], nodeName: demo-node, conditions: { ready: true } }]
`;
}

async function withSluice(
  configuration: string,
  test: (lab: Lab, log: () => string) => Promise<void>,
  more: readonly string[] = [],
): Promise<void> {
  const folder = await Deno.makeTempDir({ dir: "/run" }), manifests = `${folder}/manifests`;
  Deno.mkdirSync(manifests);
  const example = new URL("../../deploy/example/", import.meta.url).pathname;
  for (const { name } of Deno.readDirSync(example)) Deno.copyFileSync(example + name, `${manifests}/${name}`);
  Deno.writeTextFileSync(
    `${manifests}/guarded.yaml`,
    [
      GUARDED_MANIFEST,
      ...(["IPv4", "IPv6"] as const).flatMap((family) => [
        slice(`serves-${family.toLowerCase()}`, family, "pod-1", 8080),
        slice(`refuses-${family.toLowerCase()}`, family, "pod-2", 8099),
        slice(`names-${family.toLowerCase()}`, family, "pod-1", 8080, "UDP"),
      ]),
      ...more,
    ].join(""),
  );
  Deno.writeTextFileSync(
    `${folder}/config.yaml`,
    `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
detectLocalMode: ClusterCIDR
clusterCIDR: ${Object.values(NETWORK.clusterCIDR).join(",")}
conntrack: { maxPerCore: 0 }
${configuration}`,
  );
  await inLab(async (lab) => {
    const sluice = startSluice(lab, manifests, systemClock, `${folder}/config.yaml`);
    try {
      await sluice.ready();
      await test(lab, sluice.log);
    } finally {
      await sluice.stop();
    }
  });
}

/** Opens connections; returns the sorted set of pods that answered and of other outcomes. */
async function outcomes(lab: Lab, from: Namespace, target: Target, count = CONNECTIONS): Promise<string[]> {
  const seen = new Set<string>();
  for (let i = 0; i < count; i++) {
    const outcome = await lab.connect(from, target);
    seen.add(outcome.kind === "answered" ? outcome.by : outcome.kind);
  }
  return [...seen].sort();
}

/** Waits until the node gets an answer. */
async function served(lab: Lab, target: Target, log: () => string): Promise<void> {
  const isServed = async () => (await outcomes(lab, "node", target, 1))[0] === "pod-1";
  await waitFor(`${target.protocol} ${target.address} is served`, SERVED_WITHIN_MS, isServed, 50).catch((error) => {
    throw new Error(`${errorText(error)}: ${log()}`);
  });
}

/** The ports of the relay, as the rules name them. */
async function relayPorts(lab: Lab): Promise<{ readonly protocol: "tcp" | "udp"; readonly port: number }[]> {
  const rules = await lab.run("node", ["iptables-save", "-t", "nat"]) +
    await lab.run("node", ["ip6tables-save", "-t", "nat"]);
  return [...rules.matchAll(/-A KUBE-SV[CL]-\S+ -p (tcp|udp) .*--to-destination \S+:(\d+)$/gm)].map((match) => (
    { protocol: match[1] as "tcp" | "udp", port: Number(match[2]) }
  ));
}

Deno.test("userspace mode: the relay carries TCP and UDP of both families, from everywhere, at every frontend", () =>
  withSluice("mode: userspace\n", async (lab) => {
    for (const from of ["pod-1", "node", "outside"] as const) {
      assert.deepEqual(await outcomes(lab, from, WEB), ["pod-1", "pod-2", "pod-3"], from);
      assert.deepEqual(await outcomes(lab, from, WEB_IPV6), ["pod-1", "pod-2", "pod-3"], from);
      assert.deepEqual(await outcomes(lab, from, NAMES, 3), ["pod-2"], from);
      for (const address of NODE) {
        const target = { address, port: NODE_PORT };
        assert.deepEqual(await outcomes(lab, from, { protocol: "tcp", ...target }, 3), ["pod-1"], from);
        assert.deepEqual(await outcomes(lab, from, { protocol: "udp", ...target }, 3), ["pod-1"], from);
      }
    }
    assert.equal(await lab.run("node", [...program(), "diff"]), "", "the kernel has the relay's ports");
    const seen = await lab.connect("outside", WEB);
    assert(seen.kind === "answered" && seen.sourceSeen !== NETWORK.client.IPv4, "the client's address is not kept");
  }));

Deno.test("userspace mode: an endpoint that refuses is passed over, and source ranges hold", () =>
  withSluice("mode: userspace\n", async (lab) => {
    for (const address of ["10.96.0.90", GUARDED_IPV6.address]) {
      assert.deepEqual(await outcomes(lab, "pod-1", { ...TCP, address }), ["pod-1"]);
    }
    assert.deepEqual(await outcomes(lab, "outside", GUARDED, 1), ["silence"]);
    const ports = await relayPorts(lab);
    assert(ports.length >= 8, `only ${ports.length} relay ports`);
    for (const { protocol, port } of ports) {
      for (const address of NODE) {
        const target = { protocol, address, port, timeoutMs: 300 };
        for (const from of ["outside", "pod-1"] as const) {
          const { kind } = await lab.connect(from, target);
          assert(kind !== "answered", `${protocol} port ${port} of the relay is open at ${address} from ${from}`);
        }
      }
    }
  }));

for (
  const [mode, configuration] of [
    ["userspace", "mode: userspace\n"],
    ["nftables", `mode: nftables\nnodePortAddresses: [${NETWORK.node.IPv4}/32, localhost]\n`],
  ] as const
) {
  Deno.test(`${mode} mode: node ports are served at 127.0.0.1 and ::1, for this node alone and without route_localnet`, () =>
    withSluice(configuration, async (lab, log) => {
      for (const address of ["127.0.0.1", "::1"]) {
        for (const protocol of ["tcp", "udp"] as const) {
          const target = { protocol, address, port: NODE_PORT };
          // The rules do not wait for the relay.
          await served(lab, target, log);
          assert.deepEqual(await outcomes(lab, "node", target, 5), ["pod-1"]);
        }
      }
      assert.deepEqual(await outcomes(lab, "node", { ...TCP, address: "127.0.0.1", port: 30080 }), ["pod-2", "pod-3"]);
      assert.equal(await lab.run("node", ["sysctl", "-n", "net.ipv4.conf.all.route_localnet"]), "0\n");
      const outside = { ...TCP, address: NETWORK.node.IPv4, port: 30080 };
      assert.deepEqual(await outcomes(lab, "outside", outside), ["pod-2", "pod-3"]);
    }));
}

const METRICS_PORT = 10249;
/** A service with an endpoint at the port of the status page. */
const selfish = (name: string, address: string, endpoint: string) =>
  `---
apiVersion: v1
kind: Service
metadata: { name: ${name}, namespace: default }
spec: { type: ClusterIP, clusterIP: ${address}, clusterIPs: [${address}], ports: [{ name: http, port: 80, protocol: TCP }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: ${name}-1, namespace: default, labels: { kubernetes.io/service-name: ${name} } }
addressType: IPv4
ports: [{ name: http, port: ${METRICS_PORT}, protocol: TCP }]
endpoints: [{ addresses: [${endpoint}] }]
`;

Deno.test("userspace mode: a client elsewhere is never this host, and reaches no listener of the node's loopback", () =>
  withSluice(
    `mode: userspace\nmetricsBindAddress: 0.0.0.0:${METRICS_PORT}\n`,
    async (lab, log) => {
      const status = async (from: Namespace, address: string, port = 80) =>
        (await lab.run(from, [
          ...["curl", "--silent", "--max-time", "2", "--output", "/dev/null", "--write-out", "%{http_code}"],
          ...["--header", "Host: localhost", `http://${address}:${port}/`],
        ]).catch(() => "000")).slice(0, 3);
      assert.equal(await status("node", "127.0.0.1", METRICS_PORT), "200", log());
      for (const from of ["outside", "pod-1", "node"] as const) {
        assert.equal(await status(from, "10.96.0.92"), "403", `through the relay, from ${from}: ${log()}`);
        assert.equal(await status(from, "10.96.0.93"), "000", `at an unspecified endpoint, from ${from}`);
      }
      assert.match(log(), /endpoint address 0\.0\.0\.0 is unspecified; ignored/);
    },
    [
      selfish("status", "10.96.0.92", NETWORK.node.IPv4),
      selfish("unspecified", "10.96.0.93", "0.0.0.0"),
    ],
  ));
