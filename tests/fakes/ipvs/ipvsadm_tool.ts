import type { ToolResult } from "../../../backends/tools/runner.ts";
import { canonicalAddress, joinHostPort, splitHostPort } from "../../../platform/address.ts";
import { Unsupported } from "../iptables/errors.ts";
import type { FakeVirtualServer, IpvsKernel } from "./kernel.ts";

const HEAD = "IP Virtual Server version 1.2.1 (size=4096)\n";
const COLUMNS = "Prot LocalAddress:Port Scheduler Flags\n" +
  "  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn\n";

const STATS_COLUMNS = "Prot LocalAddress:Port               Conns   InPkts  OutPkts  InBytes OutBytes\n" +
  "  -> RemoteAddress:Port\n";

/**
 * Fakes ipvsadm 1.31. A batch continues after a line that the kernel refuses; the exit status is that of the last line.
 */
export function runIpvsadm(kernel: IpvsKernel, args: readonly string[], stdin: string): ToolResult {
  if (!kernel.hasIpvs) {
    return failed(
      255,
      "Can't initialize ipvs: Protocol not available\n" +
        "Are you sure that IP Virtual Server is built in the kernel or as module?\n",
    );
  }
  if (args[0] === "--restore") return restore(kernel, stdin);
  if (args.join(" ") === "--save -n") return succeeded(saved(kernel));
  if (args.join(" ") === "-Ln --stats --exact") return succeeded(counted(kernel));
  if (args.join(" ") === "-L --timeout") {
    return succeeded(`Timeout (tcp tcpfin udp): ${kernel.timeouts.join(" ")}\n`);
  }
  if (args[0] === "-Ln") return list(kernel, args.slice(1));
  if (args[0] === "--set") {
    kernel.timeouts = kernel.timeouts.map((before, i) => Number(args[i + 1]) || before);
    return succeeded("");
  }
  throw new Unsupported(`ipvsadm ${args.join(" ")}`);
}

function succeeded(stdout: string): ToolResult {
  return { exitCode: 0, stdout, stderr: "" };
}

function failed(exitCode: number, stderr: string): ToolResult {
  return { exitCode, stdout: "", stderr };
}

function restore(kernel: IpvsKernel, stdin: string): ToolResult {
  let stderr = "", exitCode = 0;
  for (const line of stdin.split("\n")) {
    if (line === "") continue;
    const words = line.split(" ");
    if (!isAddress(words[2]!)) return failed(2, `${stderr}illegal virtual server address[:port] specified\n`);
    const refusal = command(kernel, words);
    exitCode = refusal ? 255 : 0;
    if (refusal) stderr += `${refusal}\n`;
  }
  return { exitCode, stdout: "", stderr };
}

/** Runs one line of a batch and returns the kernel's refusal, if any. */
function command({ servers, schedulers, removedReals }: IpvsKernel, words: readonly string[]): string | undefined {
  const [verb, option, at] = words;
  const key = `${option} ${at}`, server = servers.get(key);
  switch (verb) {
    case "-A":
    case "-E": {
      if (verb === "-A" && server) return "Service already exists";
      if (verb === "-E" && !server) return "No such service";
      const definition = parseDefinition(words.slice(3));
      if (!schedulers.has(definition.scheduler)) return "Scheduler or persistence engine not found";
      if (server) Object.assign(server, definition);
      else servers.set(key, { ...definition, reals: new Map(), clients: new Map() });
      return undefined;
    }
    case "-D":
      return servers.delete(key) ? undefined : "No such service";
    case "-a":
    case "-e":
    case "-d": {
      if (!server) return "Service not defined";
      const real = words[4]!, before = server.reals.get(real);
      if (verb === "-a" && before) return "Destination already exists";
      if (verb !== "-a" && !before) return "No such destination";
      if (verb === "-d") {
        server.reals.delete(real);
        removedReals.set(`${key} ${real}`, before!.connections);
        return undefined;
      }
      if (words[5] !== "-m" || words[6] !== "-w") throw new Unsupported(`ipvsadm ${words.join(" ")}`);
      const weight = Number(words[7]);
      if (before) before.weight = weight;
      else {server.reals.set(real, {
          active: 0,
          inactive: 0,
          connections: removedReals.get(`${key} ${real}`) ?? 0,
          weight,
        });}
      return undefined;
    }
    default:
      throw new Unsupported(`ipvsadm ${words.join(" ")}`);
  }
}

function parseDefinition(
  words: readonly string[],
): Pick<FakeVirtualServer, "scheduler" | "persistentSeconds" | "flags"> {
  let scheduler = "wlc", persistentSeconds = 0, flags = "";
  for (let i = 0; i < words.length; i += 2) {
    const value = words[i + 1]!;
    if (words[i] === "-s") scheduler = value;
    else if (words[i] === "-p") persistentSeconds = Number(value);
    else if (words[i] === "-b") flags = value;
    else throw new Unsupported(`ipvsadm ${words.join(" ")}`);
  }
  return { scheduler, persistentSeconds, flags };
}

function isAddress(at: string): boolean {
  return /^\d+$/.test(at) || canonicalAddress(splitHostPort(at).address) !== undefined;
}

/** The output of `--save -n`. */
export function saved({ servers }: IpvsKernel): string {
  let text = "";
  for (const [key, { scheduler, persistentSeconds, flags, reals }] of servers) {
    text += `-A ${key} -s ${scheduler}${persistentSeconds > 0 ? ` -p ${persistentSeconds}` : ""}${
      flags === "" ? "" : ` -b ${flags}`
    }\n`;
    for (const [real, { weight }] of reals) text += `-a ${key} -r ${real} -m -w ${weight}\n`;
  }
  return text;
}

const PROTOCOLS: Readonly<Record<string, string>> = {
  "-t": "TCP ",
  "-u": "UDP ",
  "--sctp-service": "SCTP",
  "-f": "FWM ",
};

/** The output of `-Ln --stats --exact`: each connection was one packet of 60 bytes. */
function counted({ servers }: IpvsKernel): string {
  let text = HEAD + STATS_COLUMNS;
  const row = (start: string, name: string, connections: number) => {
    const numbers = [connections, connections, 0, 60 * connections, 0];
    text += `${start}${name.padEnd(28)}${numbers.map((number) => ` ${String(number).padStart(8)}`).join("")}\n`;
  };
  for (const [key, { reals }] of servers) {
    const [option = "", at = ""] = key.split(" ");
    const connections = [...reals.values()].reduce((sum, real) => sum + real.connections, 0);
    row(`${PROTOCOLS[option]} `, at, connections);
    for (const [name, real] of reals) row("  -> ", name, real.connections);
  }
  return text;
}

function list({ servers }: IpvsKernel, only: readonly string[]): ToolResult {
  const chosen = only.length === 0 ? [...servers] : [...servers].filter(([key]) => key === only.join(" "));
  if (only.length > 0 && chosen.length === 0) return failed(1, "No such service\n");
  let text = only.length === 0 ? HEAD + COLUMNS : COLUMNS;
  for (const [key, { scheduler, persistentSeconds, flags, reals }] of chosen) {
    const [option = "", at = ""] = key.split(" ");
    const { address, port } = option === "-f" ? { address: at, port: 0 } : splitHostPort(at);
    const named = option === "-f" ? at : joinHostPort(address, port);
    text += `${PROTOCOLS[option]} ${named} ${scheduler}${
      persistentSeconds > 0 ? ` persistent ${persistentSeconds}` : ""
    }${flags === "" ? "" : ` (${flags})`}\n`;
    for (const [real, { weight, active, inactive }] of reals) {
      text += `  -> ${real.padEnd(28)} Masq    ${String(weight).padEnd(6)} ${String(active).padEnd(10)} ${
        String(inactive).padEnd(10)
      }\n`;
    }
  }
  return succeeded(text);
}
