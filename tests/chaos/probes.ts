/** Traffic that goes on while faults are done, and what became of it. */
import assert from "node:assert/strict";
import { NETWORK, type Place } from "../../demo/lab.ts";
import { clusterIP, probedServices, service } from "./cluster.ts";
import type { ChaosLab } from "./lab.ts";
import type { Figures } from "./scenario.ts";
import type { ProbeOrders, Tally } from "./traffic.ts";

/** Traffic that runs. */
export interface Traffic {
  /** Ends it; throws where a connection failed, and tells what there was. */
  end(): Promise<Figures>;
}

const ECHO = { name: "echo", address: "10.96.0.3", port: 9000 } as const;
const PROBE = { atOnce: 4, restMs: 5, timeoutMs: 900 } as const;

/** Puts the echo service into the cluster, whose connections last; to be done before the traffic starts. */
export function applyEcho(lab: Pick<ChaosLab, "api">): void {
  lab.api.apply(service(ECHO.name, [ECHO.address]), {
    kind: "EndpointSlice",
    metadata: { name: "echo-1", namespace: "default", labels: { "kubernetes.io/service-name": ECHO.name } },
    addressType: "IPv4",
    endpoints: [{ addresses: [NETWORK.pods["pod-2"].IPv4], conditions: { ready: true }, nodeName: NETWORK.nodeName }],
    ports: [{ name: "http", protocol: "TCP", port: ECHO.port }],
  });
}

/**
 * Connects to every probed service of the cluster all the time, from a pod and from outside, and keeps one connection
 * busy. The services must be served already.
 */
export function startTraffic(lab: ChaosLab, services: number): Traffic {
  const targets = probedServices(services).map((index) => ({ hostname: clusterIP(index), port: 80 }));
  const orders: ProbeOrders = { targets, ...PROBE };
  const server = start(lab, "pod-2", ["echo", NETWORK.pods["pod-2"].IPv4, String(ECHO.port)]);
  const running = [
    start(lab, "pod-1", ["probe", JSON.stringify(orders)]),
    start(lab, "outside", ["probe", JSON.stringify(orders)]),
    start(lab, "pod-1", ["hold", ECHO.address, "80"]),
  ];
  return {
    async end() {
      const [inside, outside, held] = await Promise.all(running.map(tallyOf));
      server.kill("SIGKILL");
      await server.status;
      const all = [inside!, outside!, held!];
      assert.equal(
        all.reduce((sum, { failures }) => sum + failures, 0),
        0,
        `connections failed: ${all.map((tally) => JSON.stringify(tally)).join("; ")}`,
      );
      return {
        "new connections, failed": `${inside!.attempts + outside!.attempts}, 0`,
        "slowest new connection, ms": Math.max(inside!.slowestMs, outside!.slowestMs),
        "round trips on one connection, lost": `${held!.attempts}, 0`,
      };
    },
  };
}

function start(lab: ChaosLab, place: Place, args: readonly string[]): Deno.ChildProcess {
  const script = new URL("./traffic.ts", import.meta.url).pathname;
  const command = [Deno.execPath(), "run", "--quiet", "--cached-only", "--no-check", "--allow-net", script, ...args];
  return lab.start(place, command, { stdin: "piped", stdout: "piped" });
}

async function tallyOf(child: Deno.ChildProcess): Promise<Tally> {
  await child.stdin.close().catch(() => {});
  const { stdout } = await child.output();
  const text = new TextDecoder().decode(stdout).trim();
  if (text === "") throw new Error("a process that opens connections ended early");
  return JSON.parse(text);
}
