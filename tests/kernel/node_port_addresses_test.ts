/** Node ports that a Service limits to some of the node's addresses, with real connections in both families. */
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { type Lab, type Namespace, NETWORK } from "../../demo/lab.ts";
import { startSluice } from "../../demo/sluice.ts";
import { systemClock } from "../../platform/clock.ts";
import { waitFor } from "../chaos/wait.ts";
import { inLab } from "./in_lab.ts";

/** A second address of the node in each family. */
const SECOND = { IPv4: "198.51.100.77", IPv6: "2001:db8:77::77" };
const FIRST = NETWORK.node;
const FAMILIES = ["IPv4", "IPv6"] as const;
/** The node ports of a service with endpoints, and of one without. */
const PORT = 30080, EMPTY_PORT = 30081;
const CHANGE_WITHIN_MS = 20_000;

/** A Service with two IP families, a node port and this annotation; none without a value. */
function service(name: string, clusterIPs: readonly string[], nodePort: number, addresses: string | undefined): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Service",
    metadata: {
      name,
      namespace: "default",
      ...addresses !== undefined && { annotations: { "sluice.dev/node-port-addresses": addresses } },
    },
    spec: {
      type: "NodePort",
      clusterIP: clusterIPs[0],
      clusterIPs,
      ipFamilies: FAMILIES,
      ipFamilyPolicy: "RequireDualStack",
      ports: [{ name: "http", port: 80, targetPort: 8080, nodePort, protocol: "TCP" }],
    },
  });
}

function slice(family: typeof FAMILIES[number]): string {
  return JSON.stringify({
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      name: `limited-${family.toLowerCase()}`,
      namespace: "default",
      labels: { "kubernetes.io/service-name": "limited" },
    },
    addressType: family,
    ports: [{ name: "http", port: 8080, protocol: "TCP" }],
    endpoints: [{
      addresses: [NETWORK.pods["pod-1"][family]],
      nodeName: NETWORK.nodeName,
      conditions: { ready: true },
    }],
  });
}

/** Writes both services with this annotation, atomically. */
function annotate(manifests: string, addresses: string | undefined): void {
  const documents = [
    service("limited", ["10.96.0.90", "fd00:10:96::90"], PORT, addresses),
    service("empty", ["10.96.0.91", "fd00:10:96::91"], EMPTY_PORT, addresses),
    ...FAMILIES.map(slice),
  ];
  Deno.writeTextFileSync(`${manifests}/limited.yaml.new`, documents.join("\n---\n"));
  Deno.renameSync(`${manifests}/limited.yaml.new`, `${manifests}/limited.yaml`);
}

/** Who answers at each port of each address of the node; `host` is a program of the node. */
async function answers(lab: Lab, from: Namespace): Promise<Record<string, string>> {
  const by: Record<string, string> = {};
  for (const family of FAMILIES) {
    for (const [which, addresses] of [["first", FIRST], ["second", SECOND]] as const) {
      for (const port of [PORT, EMPTY_PORT]) {
        const outcome = await lab.connect(from, { protocol: "tcp", address: addresses[family], port });
        by[`${family} ${which} ${port}`] = outcome.kind === "answered" ? outcome.by : outcome.kind;
      }
    }
  }
  return by;
}

/** Where the service is, and the answers that follow; elsewhere the program of the node answers. */
function expected(isServed: (address: string) => boolean): Record<string, string> {
  return Object.fromEntries(
    FAMILIES.flatMap((family) =>
      ([["first", FIRST], ["second", SECOND]] as const).flatMap(([which, addresses]) => {
        const served = isServed(addresses[family]);
        return [
          [`${family} ${which} ${PORT}`, served ? "pod-1" : "host"],
          [`${family} ${which} ${EMPTY_PORT}`, served ? "refused" : "host"],
        ];
      })
    ),
  );
}

async function untilAnswered(lab: Lab, wanted: Record<string, string>): Promise<void> {
  let found: Record<string, string> = {};
  const isWanted = async () => isDeepStrictEqual(found = await answers(lab, "outside"), wanted);
  await waitFor("the answers", CHANGE_WITHIN_MS, isWanted, 50).catch(() => assert.deepEqual(found, wanted));
}

/** Starts a program of the node that listens on both ports of all its addresses, as others may where no service is. */
async function startHost(lab: Lab): Promise<Deno.ChildProcess> {
  const agent = new URL("../../demo/agent.ts", import.meta.url).pathname;
  const listeners = [...Object.values(FIRST), ...Object.values(SECOND)].flatMap((address) =>
    [PORT, EMPTY_PORT].flatMap((port) => ["host", address, String(port)])
  );
  const command = [Deno.execPath(), "run", "--quiet", "--cached-only", "--unstable-net", "--allow-net", agent];
  const host = lab.start("node", [...command, ...listeners], { stdin: "piped", stdout: "piped" });
  await host.stdout.getReader().read();
  return host;
}

for (const mode of ["iptables", "nftables", "userspace"]) {
  Deno.test(`${mode}: a Service with the annotation has its node ports at these addresses, and elsewhere programs answer`, () =>
    inLab(async (lab) => {
      await lab.run("node", ["ip", "address", "add", `${SECOND.IPv4}/32`, "dev", "lo"]);
      await lab.run("node", ["ip", "address", "add", `${SECOND.IPv6}/128`, "dev", "lo", "nodad"]);
      const host = await startHost(lab);
      const manifests = await Deno.makeTempDir({ dir: "/run" }), configuration = `${manifests}.yaml`;
      const { IPv4, IPv6 } = NETWORK.clusterCIDR;
      Deno.writeTextFileSync(
        configuration,
        JSON.stringify({
          apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
          kind: "KubeProxyConfiguration",
          mode,
          clusterCIDR: `${IPv4},${IPv6}`,
          nodePortAddresses: ["all"],
          conntrack: { maxPerCore: 0 },
        }),
      );
      Deno.copyFileSync(new URL("../../deploy/example/web.yaml", import.meta.url), `${manifests}/web.yaml`);
      annotate(manifests, `${FIRST.IPv4}, ${FIRST.IPv6}`);
      const sluice = startSluice(lab, manifests, systemClock, configuration);
      try {
        await sluice.ready();
        const atFirst = expected((address) => Object.values<string>(FIRST).includes(address));
        await untilAnswered(lab, atFirst);
        for (const from of ["pod-2", "node"] as const) assert.deepEqual(await answers(lab, from), atFirst, from);
        annotate(manifests, "198.51.100.0/24, 2001:db8:77::/48, nonsense");
        await untilAnswered(lab, expected((address) => Object.values(SECOND).includes(address)));
        annotate(manifests, SECOND.IPv4);
        await untilAnswered(lab, expected((address) => address === SECOND.IPv4));
        annotate(manifests, "nonsense");
        await untilAnswered(lab, expected(() => false));
        annotate(manifests, undefined);
        await untilAnswered(lab, expected(() => true));
      } finally {
        await sluice.stop();
        await host.stdin.close();
        await host.status;
        await Deno.remove(manifests, { recursive: true });
        await Deno.remove(configuration);
      }
    }));
}
