import type { ToolResult } from "../../../backends/tools/runner.ts";
import { familyOf } from "../../../platform/address.ts";
import { Unsupported } from "../iptables/errors.ts";
import type { IpvsKernel } from "./kernel.ts";

/** Fakes `ip` of iproute2 6.1. */
export function runIp(kernel: IpvsKernel, args: readonly string[], stdin: string): ToolResult {
  if (args.slice(-3).join(" ") === "-force -batch -") return batch(kernel, stdin);
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
    case "route get": {
      const [, own] = /inet6? (\S+)\//.exec(listing(kernel, family, "eth0")) ?? [];
      if (own === undefined) return failed("RTNETLINK answers: Network is unreachable", 2);
      return succeeded(`${words.at(-1)} via 192.168.1.254 dev eth0 src ${own} uid 0 \\    cache \n`);
    }
    case "route show":
    case "route flush": {
      if (!words.join(" ").endsWith("table local proto 122")) throw new Unsupported(`ip ${args.join(" ")}`);
      const routes = [...kernel.localRoutes].filter(([address]) => familyOf(address) === family);
      if (what === "route show") {
        return succeeded(routes.map(([address, rest]) => `local ${address} ${rest}\n`).join(""));
      }
      for (const [address] of routes) kernel.localRoutes.delete(address);
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

function command({ interfaces, localRoutes }: IpvsKernel, line: string): string | undefined {
  const [what, verb, address = "", , device = ""] = line.split(" ");
  if (what === "route") {
    const [, of = "", source] =
      /^local (\S+)\/\d+ dev lo table local proto 122( src \S+)?$/.exec(line.slice(`route ${verb} `.length)) ?? [];
    if (of === "") throw new Unsupported(`ip -batch: ${line}`);
    if (verb === "del") return localRoutes.delete(of) ? undefined : "RTNETLINK answers: No such process";
    if (verb !== "append") throw new Unsupported(`ip -batch: ${line}`);
    if (localRoutes.has(of)) return "RTNETLINK answers: File exists";
    localRoutes.set(of, `dev lo scope host${source ?? ""}`);
    return undefined;
  }
  const addresses = interfaces.get(device);
  if (what !== "addr") throw new Unsupported(`ip -batch: ${line}`);
  if (!addresses) return `Cannot find device "${device}"`;
  if (verb === "add") {
    if (addresses.has(address)) return "RTNETLINK answers: File exists";
    addresses.add(address);
  } else if (!addresses.delete(address)) return "RTNETLINK answers: Cannot assign requested address";
  return undefined;
}
