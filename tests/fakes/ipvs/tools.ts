import type { ToolResult } from "../../../backends/tools/runner.ts";
import { type Family, familyOf, splitHostPort } from "../../../platform/address.ts";
import type { Tables } from "../iptables/tables.ts";
import { runIp } from "./ip_tool.ts";
import { runIpset } from "./ipset_tool.ts";
import { runIpvsadm, saved } from "./ipvsadm_tool.ts";
import type { IpvsKernel } from "./kernel.ts";

/** A run of a tool with its whole input. */
interface Call {
  readonly tool: string;
  readonly args: readonly string[];
  readonly stdin: string;
}

/** Runs a tool of IPVS mode; undefined for other tools. */
export function runIpvsTool(
  kernel: IpvsKernel,
  { tool, args, stdin }: Call,
  isUsed: (set: string) => boolean,
): ToolResult | undefined {
  switch (tool) {
    case "ipvsadm":
      return runIpvsadm(kernel, args, stdin);
    case "ipset":
      return runIpset(kernel, args, stdin, isUsed);
    case "ip":
      return runIp(kernel, args, stdin);
    case "modprobe":
      return { exitCode: 0, stdout: "", stderr: "" };
    default:
      return undefined;
  }
}

/** The error of iptables-restore 1.8.9 (nf_tables) for a set that does not exist; undefined if all exist. */
export function missingSet({ sets }: IpvsKernel, { tool, stdin }: Call): ToolResult | undefined {
  const lines = stdin.split("\n");
  for (let i = 0; i < lines.length; i++) {
    const name = /--match-set (\S+)/.exec(lines[i]!)?.[1];
    if (name === undefined || sets.has(name)) continue;
    const stderr = `${tool} v1.8.9 (nf_tables): Set ${name} doesn't exist.\n\nError occurred at line: ${i + 1}\n` +
      `Try \`${tool} -h' or '${tool} --help' for more information.\n`;
    return { exitCode: 2, stdout: "", stderr };
  }
  return undefined;
}

/** Whether a rule uses a set. */
export function isSetUsed(set: string, all: readonly Tables[]): boolean {
  return all.some((tables) =>
    tables.list().some(([, table]) =>
      [...table.values()].some(({ rules }) => rules.some(({ text }) => text.includes(`--match-set ${set} `)))
    )
  );
}

/** The kernel's IPVS state, equal for equal kernels, without real servers of weight 0, which are draining. */
export function dumpIpvs(kernel: IpvsKernel, only: Family | undefined): string[] {
  const isOf = (address: string) => only === undefined || familyOf(address) === only;
  const servers = saved(kernel).split("\n").filter((line) =>
    line !== "" && !line.endsWith(" -w 0") && isOf(splitHostPort(line.split(" ")[2]!).address)
  );
  const family = (name: string) => name.startsWith("KUBE-6-") ? "IPv6" : "IPv4";
  const sets = [...kernel.sets].filter(([name]) => only === undefined || family(name) === only)
    .flatMap(([name, { type, entries }]) => [`${name} ${type}`, ...[...entries].map((entry) => `${name} ${entry}`)]);
  const dummy = kernel.interfaces.get("kube-ipvs0");
  const addresses = dummy ? ["kube-ipvs0", ...[...dummy].filter(isOf).map((address) => `kube-ipvs0 ${address}`)] : [];
  const held = [...kernel.localRoutes.keys()].filter(isOf).map((address) => `held ${address}`);
  return [...servers.sort(), ...sets.sort(), ...addresses.sort(), ...held.sort()];
}
