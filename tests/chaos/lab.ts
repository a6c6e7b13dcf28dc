/** The test network: the demo's lab plus an API server, which the node reaches over a separate link. */
import { createLab, type Lab } from "../../demo/lab.ts";
import { systemClock, waitAtMost } from "../../platform/clock.ts";
import { errorText } from "../../platform/log.ts";
import { endChild } from "../children.ts";
import { type FakeApiServer, startFakeApiServer } from "../fakes/api_server.ts";

/** The link between the API server and the node. */
export const API_LINK = { server: "172.30.0.1", node: "172.30.0.2", device: "api0" } as const;

const LAST_LINES = 15;
const API_CLOSES_WITHIN_MS = 10_000;
const NAMESPACES = ["node", "pod-1", "pod-2", "outside"] as const;

/** A lab with an API server. */
export interface ChaosLab extends Lab {
  readonly api: FakeApiServer;
  /** A temporary folder, removed with the lab. */
  readonly folder: string;
  /** The logs of every Sluice started so far; a failing scenario prints their last lines. */
  readonly logs: (() => string)[];
}

/** Takes the link between the node and the API server up or down. */
export async function setApiLink(state: "up" | "down"): Promise<void> {
  const args = ["link", "set", API_LINK.device, state];
  const { success } = await new Deno.Command("ip", { args, stdin: "null" }).output();
  if (!success) throw new Error(`cannot set the link to the API server ${state}`);
}

/** Creates a lab, runs a scenario in it and tears it down. */
export async function withLab<T>(scenario: (lab: ChaosLab) => Promise<T>): Promise<T> {
  const lab = await createLab();
  const folder = await Deno.makeTempDir({ dir: "/run" });
  const { server, node, device } = API_LINK;
  const script = [
    `ip link add ${device} type veth peer name ${device} netns node`,
    `ip link set ${device} up && ip address add ${server}/24 dev ${device}`,
    `ip -n node link set ${device} up && ip -n node address add ${node}/24 dev ${device}`,
    // A client port may reach the same pod through two services in quick succession. While the pod holds the first
    // connection in TIME_WAIT it drops the second SYN, which would count as a failure of Sluice.
    ...NAMESPACES.map((namespace) => `ip netns exec ${namespace} sysctl -qw net.ipv4.tcp_max_tw_buckets=0`),
  ].join(" && ");
  const { code } = await new Deno.Command("sh", { args: ["-ec", script], stdin: "null" }).output();
  if (code !== 0) throw new Error("cannot create the link between the API server and the node");
  const api = startFakeApiServer({ hostname: server });
  const started: Deno.ChildProcess[] = [];
  const start: Lab["start"] = (...args) => {
    const child = lab.start(...args);
    started.push(child);
    return child;
  };
  const logs: (() => string)[] = [];
  try {
    return await scenario({ ...lab, start, api, folder, logs });
  } catch (error) {
    const tails = logs.map((log) => log().trim().split("\n").slice(-LAST_LINES).join("\n"));
    throw new Error(`${errorText(error)}\nSluice's last lines:\n${tails.slice(-2).join("\n…\n")}`, { cause: error });
  } finally {
    // A running process keeps its network namespace and the links in it alive.
    await Promise.all(started.map(endChild));
    // A connection whose packets are lost may never end.
    await waitAtMost(systemClock, API_CLOSES_WITHIN_MS, api.close());
    // The kernel removes a namespace and its links asynchronously; the next lab reuses this link name.
    await new Deno.Command("ip", { args: ["link", "delete", device], stdin: "null" }).output();
    await lab.close();
    await Deno.remove(folder, { recursive: true });
  }
}
