/** Sluice in the lab's node. */
import { type Lab, NETWORK } from "../../demo/lab.ts";
import { program } from "../../demo/sluice.ts";
import type { ChaosLab } from "../chaos/lab.ts";

/** The outcome of a command. */
export interface Said {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command of Sluice in the lab's node. */
export async function sluice(lab: Lab, ...args: readonly string[]): Promise<Said> {
  const child = lab.start("node", [...program(), ...args], {
    stdout: "piped",
    stderr: "piped",
    env: { NO_COLOR: "1" },
  });
  const { code, stdout, stderr } = await child.output();
  const text = new TextDecoder();
  return { code, stdout: text.decode(stdout), stderr: text.decode(stderr) };
}

/** A running proxy. */
export interface Proxy {
  /** Sends it a signal; resolves when it has exited. */
  end(signal: Deno.Signal): Promise<void>;
}

/** Starts a proxy with these flags and those of the lab. */
export function startProxy(lab: ChaosLab, ...flags: readonly string[]): Proxy {
  const { IPv4, IPv6 } = NETWORK.clusterCIDR;
  const node = ["--hostname-override", NETWORK.nodeName, "--cluster-cidr", `${IPv4},${IPv6}`];
  const kernel = ["--conntrack-max-per-core", "0", "--oom-score-adj", "0"];
  const child = lab.start("node", [...program(), ...flags, ...node, ...kernel], { stdout: "null", stderr: "piped" });
  let log = "";
  const drained = (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) log += text;
  })();
  lab.logs.push(() => log);
  return {
    async end(signal) {
      child.kill(signal);
      await child.status;
      await drained;
    },
  };
}
