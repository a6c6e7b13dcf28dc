import type { ToolResult } from "../../../backends/tools/runner.ts";
import { familyOf } from "../../../platform/address.ts";
import { Unsupported } from "../iptables/errors.ts";
import type { IpvsKernel } from "./kernel.ts";

/** Fakes `ip` of iproute2 6.1. */
export function runIp(kernel: IpvsKernel, args: readonly string[], stdin: string): ToolResult {
  if (args.join(" ") === "-force -batch -") return batch(kernel, stdin);
  const family = args[0] === "-4" ? "IPv4" : args[0] === "-6" ? "IPv6" : undefined;
  const words = family ? args.slice(1) : args;
  const device = words[words.indexOf("dev") + 1]!;
  const what = words.filter((word) => word !== "-o").slice(0, 2).join(" ");
  switch (what) {
    case "link show":
    case "addr show": {
      if (words.includes("dev") && !kernel.interfaces.has(device)) return failed(`Device "${device}" does not exist.`);
      if (what === "link show") return succeeded(`2: ${device}: <BROADCAST,NOARP> mtu 1500 qdisc noop state DOWN\n`);
      return succeeded(listing(kernel, family, words.includes("dev") ? device : undefined));
    }
    case "link add":
      if (kernel.interfaces.has(words[2]!)) return failed("RTNETLINK answers: File exists", 2);
      kernel.interfaces.set(words[2]!, new Set());
      return succeeded();
    case "link del":
      return kernel.interfaces.delete(words[2]!) ? succeeded() : failed(`Cannot find device "${words[2]}"`);
    case "addr flush": {
      const addresses = kernel.interfaces.get(device);
      if (!addresses) return failed(`Device "${device}" does not exist.`);
      for (const address of addresses) if (familyOf(address) === family) addresses.delete(address);
      return succeeded();
    }
    default:
      throw new Unsupported(`ip ${args.join(" ")}`);
  }
}

function succeeded(stdout = ""): ToolResult {
  return { exitCode: 0, stdout, stderr: "" };
}

function failed(stderr: string, exitCode = 1): ToolResult {
  return { exitCode, stdout: "", stderr: `${stderr}\n` };
}

function listing({ interfaces }: IpvsKernel, family: string | undefined, device: string | undefined): string {
  let text = "";
  for (const [name, addresses] of interfaces) {
    if (device !== undefined && name !== device) continue;
    for (const address of addresses) {
      if (family !== undefined && familyOf(address) !== family) continue;
      const kind = familyOf(address) === "IPv4" ? "inet" : "inet6";
      text += `2: ${name}    ${kind} ${address} scope global ${name}\\       valid_lft forever preferred_lft forever\n`;
    }
  }
  return text;
}

function batch(kernel: IpvsKernel, stdin: string): ToolResult {
  let stderr = "";
  stdin.split("\n").forEach((line, i) => {
    if (line === "") return;
    const refusal = command(kernel, line);
    if (refusal) stderr += `${refusal}\nCommand failed -:${i + 1}\n`;
  });
  return { exitCode: stderr === "" ? 0 : 1, stdout: "", stderr };
}

function command({ interfaces }: IpvsKernel, line: string): string | undefined {
  const [what, verb, address = "", , device = ""] = line.split(" ");
  const addresses = interfaces.get(device);
  if (what !== "addr") throw new Unsupported(`ip -batch: ${line}`);
  if (!addresses) return `Cannot find device "${device}"`;
  if (verb === "add") {
    if (addresses.has(address)) return "RTNETLINK answers: File exists";
    addresses.add(address);
  } else if (!addresses.delete(address)) return "RTNETLINK answers: Cannot assign requested address";
  return undefined;
}
