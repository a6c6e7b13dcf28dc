/** The network that faults are done in: the demo's lab, and an API server beside it that the node reaches by a link of its own. */
import { createLab, type Lab } from "../../demo/lab.ts";
import { errorText } from "../../platform/log.ts";
import { type FakeApiServer, startFakeApiServer } from "../fakes/api_server.ts";

/** The link between the API server and the node. */
export const API_LINK = { server: "172.30.0.1", node: "172.30.0.2", device: "api0" } as const;

const LAST_LINES = 15;
const PLACES = ["node", "pod-1", "pod-2", "outside"] as const;

/** A lab with an API server. */
export interface ChaosLab extends Lab {
  readonly api: FakeApiServer;
  /** A folder for what is written to disk; gone with the lab. */
  readonly folder: string;
  /** What tells the last lines of everything that was started, for a scenario that fails. */
  readonly logs: (() => string)[];
}

/** Makes a lab, runs a scenario in it and takes it down. */
export async function withLab<T>(scenario: (lab: ChaosLab) => Promise<T>): Promise<T> {
  const lab = await createLab();
  const folder = await Deno.makeTempDir({ dir: "/run" });
  const { server, node, device } = API_LINK;
  const script = [
    `ip link add ${device} type veth peer name ${device} netns node`,
    `ip link set ${device} up && ip address add ${server}/24 dev ${device}`,
    `ip -n node link set ${device} up && ip -n node address add ${node}/24 dev ${device}`,
    // The same client port comes to the same pod through one service and soon after through another, which a server takes
    // for a stray packet as long as it remembers the first connection: at this rate, not one in 20,000 would be Sluice's.
    ...PLACES.map((place) => `ip netns exec ${place} sysctl -qw net.ipv4.tcp_max_tw_buckets=0`),
  ].join(" && ");
  const { code } = await new Deno.Command("sh", { args: ["-ec", script], stdin: "null" }).output();
  if (code !== 0) throw new Error("the link between the API server and the node could not be made");
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
    // A process that lives on keeps its namespace, and the links in it.
    for (const child of started) {
      try {
        child.kill("SIGKILL");
      } catch {
        continue;
      }
      await child.status;
    }
    await api.close();
    // A namespace may take a moment to go, with its links; the next lab has one of this name.
    await new Deno.Command("ip", { args: ["link", "delete", device], stdin: "null" }).output();
    await lab.close();
    await Deno.remove(folder, { recursive: true });
  }
}
