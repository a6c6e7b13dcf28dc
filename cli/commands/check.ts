import { boolean, type Configuration, option } from "../../config/mod.ts";
import type { ProxyMode } from "../../core/model/mod.ts";
import { type Finding, findingsText, machineCores, searchPath, worstOf } from "../../platform/mod.ts";
import { jsonText } from "./asking.ts";
import type { Command, Invocation } from "./command.ts";

/** The preflight. */
export const checkCommand: Command = {
  name: "check",
  summary: "Check whether this node and its API access are fit for the proxy; changes nothing.",
  arguments: [],
  flags: [
    option("json", boolean(), "Write JSON."),
    option("strict", boolean(), "End with status 1 for what is yellow, too; without it, for what is red alone."),
  ],
  examples: [
    { line: "sluice check --config /etc/sluice/config.yaml", does: "exit status 0, or 1 where something is red" },
    {
      line: "sluice check --proxy-mode nftables --source file:services.yaml",
      does: "the node alone, for another mode",
    },
  ],
  startsPrograms: true,
  async start(invocation) {
    const { flags, print } = invocation;
    const findings = await findingsOf(invocation, invocation.configuration);
    const worst = worstOf(findings);
    print(flags.get("json") === true ? jsonText({ verdict: worst, findings }) : findingsText(findings, isColorful()));
    return worst === "red" || worst === "yellow" && flags.get("strict") === true ? 1 : 0;
  },
};

/** Looks at everything that a proxy with this configuration needs. */
export async function findingsOf(
  { clock, logger, signal, runProgram }: Pick<Invocation, "clock" | "logger" | "signal" | "runProgram">,
  configuration: Configuration,
): Promise<readonly Finding[]> {
  const { examineNode } = await import("../../backends/preflight/mod.ts");
  const { createProcessRunner } = await import("../../backends/tools/mod.ts");
  const { conntrackSettings } = await import("../../config/mod.ts");
  const { ipvsSettings } = await import("../../config/mod.ts");
  const { mode, source } = configuration;
  const wanted = conntrackSettings(configuration.conntrack, machineCores());
  const node = await examineNode({
    mode,
    ipvs: ipvsSettings("IPv4", configuration),
    runner: createProcessRunner({ clock, signal, path: searchPath() }),
    uid: Deno.uid(),
    kernel: Deno.osRelease(),
    ports: portsOf(configuration),
    conntrackMax: wanted.find(({ name }) => name === "net.netfilter.nf_conntrack_max")?.value,
    running: await runningMode(configuration.controlSocket),
  });
  if (source.kind !== "kube") {
    return [...node, { name: "API server", verdict: "green", message: "is not asked: services come from elsewhere" }];
  }
  const { examineApi } = await import("../../sources/preflight/mod.ts");
  return [...node, ...await examineApi({ ...configuration, clock, logger, signal, runProgram })];
}

function portsOf({ healthzBindAddress, metricsBindAddress }: Configuration): readonly number[] {
  return [healthzBindAddress, metricsBindAddress].filter((address) => address !== undefined)
    .map((address) => Number(address.slice(address.lastIndexOf(":") + 1)));
}

/** The mode of the Sluice that answers on the control socket. */
async function runningMode(controlSocket: string | undefined): Promise<ProxyMode | undefined> {
  if (controlSocket === undefined) return undefined;
  const { askProxy } = await import("../../answers/control/mod.ts");
  try {
    return (await (await askProxy(controlSocket)).status()).mode;
  } catch {
    // None runs, or it is another user's.
    return undefined;
  }
}

function isColorful(): boolean {
  return Deno.stdout.isTerminal() && !Deno.env.get("NO_COLOR");
}
