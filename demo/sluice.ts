/** Runs Sluice in the lab's node with a folder of manifests. */
import { type Clock, sleep } from "../platform/clock.ts";
import { type Lab, NETWORK } from "./lab.ts";

/** A running Sluice. */
export interface RunningSluice {
  /** Standard error so far. */
  log(): string;
  /**
   * Resolves when the example's service `web` answers in both families, i.e. when everything is in effect.
   * @throws with Sluice's last lines if it exits first or is not ready in time
   */
  ready(): Promise<void>;
  /** Sends SIGTERM and waits for the process to exit. */
  stop(): Promise<void>;
}

const READY_WITHIN_MS = 60_000;

/**
 * Starts Sluice in the node: from source, or the executable at SLUICE_BINARY.
 * @param manifests the folder of the file source
 * @param configuration the configuration file; flags are used by default
 */
export function startSluice(lab: Lab, manifests: string, clock: Clock, configuration?: string): RunningSluice {
  const { IPv4, IPv6 } = NETWORK.clusterCIDR;
  const flags = [
    ...["--detect-local-mode", "ClusterCIDR", "--cluster-cidr", `${IPv4},${IPv6}`],
    ...["--conntrack-max-per-core", "0", "--iptables-min-sync-period", "0s"],
  ];
  const child = lab.start("node", [
    ...program(),
    ...["--source", `file:${manifests}`, "--hostname-override", NETWORK.nodeName, "--logging-format", "text"],
    ...(configuration === undefined ? flags : ["--config", configuration]),
  ], { stdout: "null", stderr: "piped" });
  let log = "", ended = false;
  const drained = (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) log += text;
  })();
  const status = child.status.then((result) => {
    ended = true;
    return result;
  });
  const tail = () => log.trim().split("\n").slice(-20).join("\n");
  return {
    log: () => log,
    async ready() {
      const deadline = clock.monotonic() + READY_WITHIN_MS;
      while (!await webAnswers(lab)) {
        if (ended) throw new Error(`Sluice exited with status ${(await status).code}. Its last lines:\n${tail()}`);
        if (clock.monotonic() > deadline) {
          throw new Error(`Sluice is not ready after ${READY_WITHIN_MS / 1000} s. Its last lines:\n${tail()}`);
        }
        await sleep(clock, 50);
      }
    },
    async stop() {
      if (!ended) child.kill("SIGTERM");
      await status;
      await drained;
    },
  };
}

/** The command that runs Sluice: the executable at SLUICE_BINARY, or the source. */
export function program(): string[] {
  const binary = Deno.env.get("SLUICE_BINARY");
  if (binary) return [binary];
  const main = new URL("../main.ts", import.meta.url).pathname;
  return [Deno.execPath(), "run", "--quiet", "--cached-only", "--no-prompt", "--allow-all", main];
}

async function webAnswers(lab: Lab): Promise<boolean> {
  for (const address of ["10.96.0.10", "fd00:10:96::a"]) {
    const outcome = await lab.connect("node", { protocol: "tcp", address, port: 80, timeoutMs: 500 });
    if (outcome.kind !== "answered") return false;
  }
  return true;
}
