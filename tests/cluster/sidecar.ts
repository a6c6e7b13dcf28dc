/**
 * A service mesh's sidecar in the network namespaces of pods: rules that redirect TCP connections to it, and a relay (sidecar.go).
 * The rules are those of Istio's init container: https://istio.io/latest/docs/ops/deployment/application-requirements/ (its ports),
 * tools/istio-iptables in https://github.com/istio/istio (its chains).
 */
import { FAMILIES, type Family } from "../../platform/mod.ts";
import type { Result } from "../suite.ts";
import { waitFor } from "../chaos/wait.ts";
import { type Cluster, endOnNode, type NodeName, OUTSIDE } from "./cluster.ts";
import { type Case, type Expected, SIDECAR } from "./connections.ts";
import type { PodName, Scene } from "./frontends.ts";
import { POD_PORT, type Protocol } from "./pods.ts";

/** The pods with a sidecar: all servers, and the clients in the network of pods. */
const PODS = [["server-1", "node1"], ["server-2", "node2"], ["client-1", "node1"], ["client-3", "node3"]] as const;
/** The user and group of the relay. */
const USER = 1337;
const STARTED_WITHIN_MS = 30_000;
const LOCAL: Readonly<Record<Family, string>> = { IPv4: "127.0.0.1/32", IPv6: "::1/128" };
const TOOL: Readonly<Record<Family, string>> = { IPv4: "iptables", IPv6: "ip6tables" };
/** Ports of the mesh's own, which it does not redirect. */
const OWN_PORTS = [15008, 15020, 15021, 15090];

function rules(family: Family): string {
  const local = LOCAL[family], passed = `${SIDECAR[family]}/${family === "IPv4" ? 32 : 128}`;
  const own = (kind: "uid" | "gid") => [
    `-A ISTIO_OUTPUT -o lo ! -d ${local} -p tcp ! --dport 15008 -m owner --${kind}-owner ${USER} -j ISTIO_IN_REDIRECT`,
    `-A ISTIO_OUTPUT -o lo -m owner ! --${kind}-owner ${USER} -j RETURN`,
    `-A ISTIO_OUTPUT -m owner --${kind}-owner ${USER} -j RETURN`,
  ];
  return [
    "*nat",
    ...["INBOUND", "REDIRECT", "IN_REDIRECT", "OUTPUT"].map((chain) => `:ISTIO_${chain} - [0:0]`),
    "-A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001",
    "-A ISTIO_IN_REDIRECT -p tcp -j REDIRECT --to-ports 15006",
    "-A PREROUTING -p tcp -j ISTIO_INBOUND",
    ...OWN_PORTS.map((port) => `-A ISTIO_INBOUND -p tcp --dport ${port} -j RETURN`),
    "-A ISTIO_INBOUND -p tcp -j ISTIO_IN_REDIRECT",
    "-A OUTPUT -p tcp -j ISTIO_OUTPUT",
    `-A ISTIO_OUTPUT -o lo -s ${passed} -j RETURN`,
    ...own("uid"),
    ...own("gid"),
    `-A ISTIO_OUTPUT -d ${local} -j RETURN`,
    "-A ISTIO_OUTPUT -j ISTIO_REDIRECT",
    "COMMIT\n",
  ].join("\n");
}

/** Adds a sidecar to the pods; resolves with the function that removes it. */
export async function addSidecars(cluster: Cluster, { client }: Scene): Promise<() => Promise<void>> {
  const removals: (() => Promise<void>)[] = [];
  for (const [pod, node] of PODS) {
    const namespace = await namespaceOf(cluster, node, client(pod).addresses.IPv4);
    const inside = ["ip", "netns", "exec", namespace], log = logOf(cluster, pod);
    const command = [...inside, `${cluster.programs}/sidecar`];
    Deno.writeTextFileSync(log, "");
    const relay = cluster.start(node, ["sh", "-c", 'exec "$@" >> "$0" 2>&1', log, ...command]);
    await waitFor(`the sidecar of ${pod} is ready, see ${log}`, STARTED_WITHIN_MS, () => {
      return Deno.readTextFileSync(log).startsWith("ready");
    }, 50);
    const restore = FAMILIES.map((family) => `${TOOL[family]}-restore --noflush <<'E'\n${rules(family)}E`).join("\n");
    await must(cluster, node, [...inside, "sh", "-ec", `ip address add ${SIDECAR.IPv6}/128 dev lo nodad\n${restore}`]);
    removals.push(async () => {
      const flush = FAMILIES.map((family) => `${TOOL[family]} -t nat -F\n${TOOL[family]} -t nat -X`).join("\n");
      await must(cluster, node, [...inside, "sh", "-ec", `${flush}\nip address delete ${SIDECAR.IPv6}/128 dev lo`]);
      await endOnNode(relay, "SIGTERM");
    });
  }
  return async () => {
    for (const remove of removals) await remove();
  };
}

/** The name of the network namespace that has an address. */
async function namespaceOf(cluster: Cluster, node: NodeName, address: string): Promise<string> {
  const find = `for it in $(ls /run/netns); do ! ip -n $it -o address | grep -qF "${address}/" || echo $it; done`;
  return (await must(cluster, node, ["sh", "-ec", find])).trim();
}

async function must(cluster: Cluster, node: NodeName, command: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await cluster.run(node, command);
  if (code !== 0) throw new Error(`${command.join(" ")} on ${node}: ${stderr}`);
  return stdout;
}

function logOf(cluster: Cluster, pod: PodName): string {
  return `${cluster.folder}/sidecar-${pod}.log`;
}

/**
 * The outcome with sidecars: servers see TCP connections come from theirs, and a client's own accepts a connection before it is
 * refused. UDP passes them by.
 */
export function throughSidecars(
  { expected, client: { addresses } }: Case,
  protocol: Protocol,
  { client }: Scene,
): Expected {
  if (protocol === "udp") return expected;
  if ("sources" in expected) return { ...expected, sources: [SIDECAR] };
  const has = PODS.some(([pod]) => client(pod).addresses === addresses);
  return expected.kind === "refused" && has ? { kind: "reset" } : expected;
}

/** Looks for connections in the logs of the sidecars, which see the addresses that the servers do not. */
export function testSidecars(cluster: Cluster, { client, spread }: Scene): readonly Result[] {
  const server = client("server-1"), near = client("client-1");
  return FAMILIES.flatMap((family) => {
    const line = (direction: string, from: string, to: string, port: number) => {
      const [source, target] = [from, to].map((host) =>
        (family === "IPv6" ? `[${host}]` : host).replaceAll(/[[\].]/g, "\\$&")
      );
      return new RegExp(`^${direction} from ${source}:\\d+ to ${target}:${port}$`, "m");
    };
    const at = near.addresses[family], pod = server.addresses[family];
    const seen: readonly (readonly [string, PodName, RegExp])[] = [
      [
        "cluster IP, from a pod: the client's sidecar connects to it",
        "client-1",
        line("outbound", at, spread.clusterIPs[family], 80),
      ],
      ["cluster IP, from a pod: the server's sidecar sees the client", "server-1", line("inbound", at, pod, POD_PORT)],
      [
        "load balancer IP, external policy Local, from outside: the server's sidecar sees the client",
        "server-1",
        line("inbound", OUTSIDE[family], pod, POD_PORT),
      ],
    ];
    return seen.map(([what, on, pattern]) => {
      const name = `${what} (${family}, TCP)`, passed = pattern.test(Deno.readTextFileSync(logOf(cluster, on)));
      if (!passed) console.log(`FAILED ${name}: no ${pattern} in the log of the sidecar of ${on}`);
      return { name, unit: name, passed, tookMs: 0 };
    });
  });
}
