/**
 * A small cluster's network made of network namespaces; create it only inside `isolate`:
 *
 *     node      the machine that runs Sluice, with a routed veth to each pod
 *     pod-1, pod-2   pods on it
 *     outside   everything else: an external client, and another node with the pod `pod-3`
 *
 * The services of deploy/example/ use this network.
 */
import type { Attempt, Outcome } from "./agent.ts";
import { SET_DEFAULTS } from "./isolate.ts";

/** A network namespace of the lab. */
export type Namespace = "node" | "pod-1" | "pod-2" | "outside";

/** The addresses of the network in both families. */
export const NETWORK = {
  nodeName: "demo-node",
  node: { IPv4: "192.0.2.10", IPv6: "2001:db8:2::10" },
  client: { IPv4: "203.0.113.7", IPv6: "2001:db8:113::7" },
  clusterCIDR: { IPv4: "10.244.0.0/16", IPv6: "fd00:10:244::/48" },
  pods: {
    "pod-1": { IPv4: "10.244.1.11", IPv6: "fd00:10:244:1::11" },
    "pod-2": { IPv4: "10.244.1.12", IPv6: "fd00:10:244:1::12" },
    "pod-3": { IPv4: "10.244.2.13", IPv6: "fd00:10:244:2::13" },
  },
  /** The node's end of every pod's link: the source of masqueraded connections to a pod. */
  podGateway: { IPv4: "169.254.1.1", IPv6: "fe80::1" },
  /** The port on which every pod listens, TCP and UDP. */
  podPort: 8080,
} as const;

/** A running lab. */
export interface Lab {
  /** Opens a connection from a namespace and resolves with its outcome. */
  connect(from: Namespace, target: Omit<Attempt, "timeoutMs"> & { readonly timeoutMs?: number }): Promise<Outcome>;
  /** Runs a command in a namespace and resolves with its standard output; throws if it fails. */
  run(namespace: Namespace, command: readonly string[]): Promise<string>;
  /** Starts a command in a namespace. */
  start(namespace: Namespace, command: readonly string[], options?: Deno.CommandOptions): Deno.ChildProcess;
  /** Ends the agents, kills all programs that still run in the namespaces, and removes these. */
  close(): Promise<void>;
}

const NAMESPACES: readonly Namespace[] = ["node", "pod-1", "pod-2", "outside"];
const LOCAL_PODS = ["pod-1", "pod-2"] as const;
const DEFAULT_TIMEOUT_MS = 2000;

/** Creates the lab. @param patience the factor of the default time in which an attempt must be answered */
export async function createLab({ patience = 1 }: { readonly patience?: number } = {}): Promise<Lab> {
  await runTool("sh", ["-e", "-c", wiring()]);
  const agents = new Map<Namespace, Agent>();
  for (const namespace of NAMESPACES) agents.set(namespace, await startAgent(namespace));
  return {
    connect: (from, target) => agents.get(from)!.ask({ timeoutMs: DEFAULT_TIMEOUT_MS * patience, ...target }),
    run: (namespace, [tool, ...args]) => runTool("ip", ["netns", "exec", namespace, tool!, ...args]),
    start: (namespace, command, options) => inNamespace(namespace, command, options).spawn(),
    async close() {
      await Promise.all([...agents.values()].map((agent) => agent.stop()));
      for (const namespace of NAMESPACES) {
        // A program that has just ended cannot be killed.
        await runTool("sh", [
          "-c",
          `ip netns pids ${namespace} | xargs -r kill -9 2>/dev/null; ip netns delete ${namespace}`,
        ]);
      }
    },
  };
}

function wiring(): string {
  const { node, client, pods, podGateway } = NETWORK;
  const lines = NAMESPACES.flatMap((namespace) => [
    `ip netns add ${namespace}`,
    `ip -n ${namespace} link set lo up`,
    `ip netns exec ${namespace} ${SET_DEFAULTS}`,
    `ip netns exec ${namespace} sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 \
      net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0`,
  ]);
  lines.push(
    "ip netns exec node sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
    "ip link add eth0 netns node type veth peer name eth0 netns outside",
    "ip -n node link set eth0 up",
    "ip -n outside link set eth0 up",
    `ip -n node address add ${node.IPv4}/24 dev eth0`,
    `ip -n node address add ${node.IPv6}/64 dev eth0 nodad`,
    "ip -n outside address add 192.0.2.1/24 dev eth0",
    "ip -n outside address add 2001:db8:2::1/64 dev eth0 nodad",
    ...[client, pods["pod-3"]].flatMap((address) => [
      `ip -n outside address add ${address.IPv4}/32 dev lo`,
      `ip -n outside address add ${address.IPv6}/128 dev lo nodad`,
    ]),
    "ip -n node route add default via 192.0.2.1",
    "ip -n node route add default via 2001:db8:2::1",
    // Everything that a client reaches through the node: the node itself, its pods and the services' addresses.
    `ip -n outside route add ${node.IPv4} dev eth0 src ${client.IPv4}`,
    `ip -n outside route add ${node.IPv6} dev eth0 src ${client.IPv6}`,
    `ip -n outside route add default via ${node.IPv4} src ${client.IPv4}`,
    `ip -n outside route add default via ${node.IPv6} src ${client.IPv6}`,
  );
  for (const pod of LOCAL_PODS) {
    lines.push(
      `ip link add ${pod} netns node type veth peer name eth0 netns ${pod}`,
      `ip -n node link set ${pod} up`,
      `ip -n ${pod} link set eth0 up`,
      `ip -n node address add ${podGateway.IPv4}/32 dev ${pod}`,
      `ip -n node address add ${podGateway.IPv6}/64 dev ${pod} nodad`,
      `ip -n node route add ${pods[pod].IPv4} dev ${pod} src ${node.IPv4}`,
      `ip -n node route add ${pods[pod].IPv6} dev ${pod} src ${node.IPv6}`,
      `ip -n ${pod} address add ${pods[pod].IPv4}/32 dev eth0`,
      `ip -n ${pod} address add ${pods[pod].IPv6}/128 dev eth0 nodad`,
      `ip -n ${pod} route add ${podGateway.IPv4} dev eth0 scope link`,
      `ip -n ${pod} route add default via ${podGateway.IPv4} dev eth0`,
      `ip -n ${pod} route add default via ${podGateway.IPv6} dev eth0`,
    );
  }
  return lines.join("\n");
}

interface Agent {
  ask(attempt: Attempt): Promise<Outcome>;
  stop(): Promise<void>;
}

async function startAgent(namespace: Namespace): Promise<Agent> {
  const names = namespace === "outside" ? ["pod-3"] as const : LOCAL_PODS.filter((pod) => pod === namespace);
  const servers = names.flatMap((name) =>
    Object.values(NETWORK.pods[name]).flatMap((address) => [name, address, String(NETWORK.podPort)])
  );
  const script = new URL("./agent.ts", import.meta.url).pathname;
  const command = [Deno.execPath(), "run", "--quiet", "--cached-only", "--unstable-net", "--allow-net", script];
  const child = inNamespace(namespace, [...command, ...servers], { stdin: "piped", stdout: "piped" }).spawn();
  const input = child.stdin.getWriter();
  const answers = linesOf(child.stdout);
  const next = async (): Promise<unknown> => {
    const { value, done } = await answers.next();
    if (done) throw new Error(`the agent in ${namespace} has exited`);
    return JSON.parse(value);
  };
  await next();
  let turn: Promise<unknown> = Promise.resolve();
  return {
    ask(attempt) {
      const answer = turn.then(async () => {
        await input.write(new TextEncoder().encode(JSON.stringify(attempt) + "\n"));
        return await next() as Outcome;
      });
      turn = answer.catch(() => {});
      return answer;
    },
    async stop() {
      await input.close();
      await answers.return(undefined);
      await child.status;
    },
  };
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop()!;
    yield* lines;
  }
}

function inNamespace(
  namespace: Namespace,
  command: readonly string[],
  options: Deno.CommandOptions = {},
): Deno.Command {
  return new Deno.Command("ip", { stdin: "null", ...options, args: ["netns", "exec", namespace, ...command] });
}

async function runTool(tool: string, args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(tool, { args: [...args], stdin: "null" }).output();
  if (code !== 0) {
    throw new Error(`${tool} ${args.join(" ")} exited with ${code}: ${new TextDecoder().decode(stderr).trim()}`);
  }
  return new TextDecoder().decode(stdout);
}
