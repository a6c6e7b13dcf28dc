/** Continuous traffic while faults are injected, and its results. */
import assert from "node:assert/strict";
import { type Namespace, NETWORK } from "../../demo/lab.ts";
import { endChild } from "../children.ts";
import { clusterIP, probedServices, service } from "./cluster.ts";
import type { ChaosLab } from "./lab.ts";
import type { Counts } from "./scenario.ts";
import type { ProbeOptions, Tally } from "./traffic.ts";

/** Running traffic. */
export interface Traffic {
  /** Stops the traffic and returns its counts; throws if a connection failed. */
  end(): Promise<Counts>;
}

const ECHO = { name: "echo", address: "10.96.0.3", port: 9000 } as const;
const PROBE = { atOnce: 4, restMs: 5, timeoutMs: 900 } as const;

/** Adds the echo service, for long-lived connections, to the cluster. Required before `startTraffic`. */
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
 * Opens connections to every probed service in a loop, from a pod and from outside, and keeps one long-lived connection
 * busy. The services must already be served.
 */
export function startTraffic(lab: ChaosLab, services: number): Traffic {
  const targets = probedServices(services).map((index) => ({ hostname: clusterIP(index), port: 80 }));
  const options: ProbeOptions = { targets, ...PROBE };
  const server = startTrafficProgram(lab, "pod-2", ["echo", NETWORK.pods["pod-2"].IPv4, String(ECHO.port)]);
  const running = [
    startTrafficProgram(lab, "pod-1", ["probe", JSON.stringify(options)]),
    startTrafficProgram(lab, "outside", ["probe", JSON.stringify(options)]),
    startTrafficProgram(lab, "pod-1", ["hold", ECHO.address, "80"]),
  ];
  return {
    async end() {
      const [inside, outside, held] = await Promise.all(running.map(tallyOf));
      await endChild(server);
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

/** Starts traffic.ts in a namespace; its standard input and output are piped. */
export function startTrafficProgram(lab: ChaosLab, namespace: Namespace, args: readonly string[]): Deno.ChildProcess {
  const script = new URL("./traffic.ts", import.meta.url).pathname;
  const command = [Deno.execPath(), "run", "--quiet", "--cached-only", "--no-check", "--allow-net"];
  const all = [...command, "--allow-env=LAB_PATIENCE", script, ...args];
  return lab.start(namespace, all, { stdin: "piped", stdout: "piped" });
}

async function tallyOf(child: Deno.ChildProcess): Promise<Tally> {
  await child.stdin.close().catch(() => {});
  const { stdout } = await child.output();
  const text = new TextDecoder().decode(stdout).trim();
  if (text === "") throw new Error("a traffic process exited early");
  return JSON.parse(text);
}
