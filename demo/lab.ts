/**
 * A small cluster's network out of network namespaces, to be made inside `seclude` only:
 *
 *     node      the machine that runs Sluice, with a routed veth to each pod
 *     pod-1, pod-2   pods on it
 *     outside   the rest of the world: an outside client, and another node with the pod `pod-3`
 *
 * deploy/example/ describes services on exactly this network.
 */
import type { Attempt, Outcome } from "./agent.ts";

/** The namespaces. */
export type Place = "node" | "pod-1" | "pod-2" | "outside";

/** The network of the example, in addresses of both families. */
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
  /** The node's end of every pod's link: what a masqueraded connection to a pod comes from. */
  podGateway: { IPv4: "169.254.1.1", IPv6: "fe80::1" },
  /** What every pod listens on, TCP and UDP. */
  podPort: 8080,
} as const;

/** A lab that stands. */
export interface Lab {
  /** Opens a connection from a place and tells what became of it. */
  connect(from: Place, target: Omit<Attempt, "timeoutMs"> & { readonly timeoutMs?: number }): Promise<Outcome>;
  /** Runs a command in a place to its end and resolves with its standard output; throws where it fails. */
  run(place: Place, command: readonly string[]): Promise<string>;
  /** Starts a command in a place. */
  start(place: Place, command: readonly string[], options?: Deno.CommandOptions): Deno.ChildProcess;
  /** Ends what runs in the lab and takes it down. */
  close(): Promise<void>;
}

const PLACES: readonly Place[] = ["node", "pod-1", "pod-2", "outside"];
const LOCAL_PODS = ["pod-1", "pod-2"] as const;
const DEFAULT_TIMEOUT_MS = 2000;

/** Makes the lab. */
export async function createLab(): Promise<Lab> {
  await must("sh", ["-e", "-c", wiring()]);
  const agents = new Map<Place, Agent>();
  for (const place of PLACES) agents.set(place, await startAgent(place));
  return {
    connect: (from, target) => agents.get(from)!.ask({ timeoutMs: DEFAULT_TIMEOUT_MS, ...target }),
    run: (place, [tool, ...args]) => must("ip", ["netns", "exec", place, tool!, ...args]),
    start: (place, command, options) => inPlace(place, command, options).spawn(),
    async close() {
      await Promise.all([...agents.values()].map((agent) => agent.stop()));
      for (const place of PLACES) await must("ip", ["netns", "delete", place]);
    },
  };
}

function wiring(): string {
  const { node, client, pods, podGateway } = NETWORK;
  const lines = PLACES.flatMap((place) => [
    `ip netns add ${place}`,
    `ip -n ${place} link set lo up`,
    `ip netns exec ${place} sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 \
      net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0`,
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
    // All that a client reaches through the node: the node itself, its pods, and the services' addresses.
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

async function startAgent(place: Place): Promise<Agent> {
  const names = place === "outside" ? ["pod-3"] as const : LOCAL_PODS.filter((pod) => pod === place);
  const servers = names.flatMap((name) =>
    Object.values(NETWORK.pods[name]).flatMap((address) => [name, address, String(NETWORK.podPort)])
  );
  const script = new URL("./agent.ts", import.meta.url).pathname;
  const command = [Deno.execPath(), "run", "--quiet", "--cached-only", "--unstable-net", "--allow-net", script];
  const child = inPlace(place, [...command, ...servers], { stdin: "piped", stdout: "piped" }).spawn();
  const input = child.stdin.getWriter();
  const answers = linesOf(child.stdout);
  const next = async (): Promise<unknown> => {
    const { value, done } = await answers.next();
    if (done) throw new Error(`the agent in ${place} has ended`);
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

function inPlace(place: Place, command: readonly string[], options: Deno.CommandOptions = {}): Deno.Command {
  return new Deno.Command("ip", { stdin: "null", ...options, args: ["netns", "exec", place, ...command] });
}

async function must(tool: string, args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(tool, { args: [...args], stdin: "null" }).output();
  if (code !== 0) {
    throw new Error(`${tool} ${args.join(" ")} ended with ${code}: ${new TextDecoder().decode(stderr).trim()}`);
  }
  return new TextDecoder().decode(stdout);
}
