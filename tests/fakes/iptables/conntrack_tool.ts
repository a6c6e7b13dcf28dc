import type { ToolResult } from "../../../backends/tools/runner.ts";
import { canonicalAddress, type Family, familyOf } from "../../../platform/address.ts";
import { splitWords } from "./command_line.ts";
import { Unsupported } from "./errors.ts";

/** An entry of the conntrack table. */
export interface ConntrackEntry {
  /** UDP by default. */
  readonly protocol?: "udp" | "tcp" | "sctp";
  /** ESTABLISHED by default; UDP has none. */
  readonly state?: "SYN_SENT";
  readonly source: string;
  readonly sourcePort: number;
  readonly destination: string;
  readonly destinationPort: number;
  /** The answering address; the destination if it was not translated. */
  readonly answeredBy?: { readonly address: string; readonly port: number };
}

/** The conntrack table and its tool. */
export interface ConntrackTool {
  readonly entries: ConntrackEntry[];
  run(args: readonly string[], stdin: string): ToolResult;
}

const BANNER = "conntrack v1.4.7 (conntrack-tools): ";
const HINT = "Try `conntrack -h' or 'conntrack --help' for more information.\n";
const NUMBERS = { tcp: 6, udp: 17, sctp: 132 } as const;

/** Selects entries; a command applies to entries that match all filters. */
type Filter = (entry: ConntrackEntry) => boolean;

/** The filter for each option and its value. */
const FILTERS: Readonly<Record<string, (value: string) => Filter>> = {
  "-p": (value) => (entry) => protocolOf(entry) === value,
  "-f": (value) => (entry) => familyOf(entry.source) === FAMILIES[value],
  "-s": (value) => (entry) => entry.source === value,
  "-d": (value) => (entry) => entry.destination === value,
  "-r": (value) => (entry) => replySource(entry).address === value,
  "-q": (value) => (entry) => entry.source === value,
  // Unlike -r, matches only entries with a translated destination.
  "--dst-nat": (value) => (entry) => isTranslated(entry) && replySource(entry).address === value,
  "--state": (value) => (entry) => stateOf(entry) === value,
  "--sport": (value) => (entry) => String(entry.sourcePort) === value,
  "--dport": (value) => (entry) => String(entry.destinationPort) === value,
  "--reply-port-src": (value) => (entry) => String(replySource(entry).port) === value,
  "--reply-port-dst": (value) => (entry) => String(entry.sourcePort) === value,
};

const ALIASES: Readonly<Record<string, string>> = {
  "--proto": "-p",
  "--family": "-f",
  "--src": "-s",
  "--orig-src": "-s",
  "--dst": "-d",
  "--orig-dst": "-d",
  "--reply-src": "-r",
  "--reply-dst": "-q",
  "-j": "--dst-nat",
  "--orig-port-src": "--sport",
  "--orig-port-dst": "--dport",
};

const ADDRESS_OPTIONS = ["-s", "-d", "-r", "-q", "--dst-nat"];
const FAMILIES: Readonly<Record<string, Family>> = { ipv4: "IPv4", ipv6: "IPv6" };

/** Fakes conntrack 1.4.7 with an empty table: list and delete, also as a file of commands on standard input. */
export function createConntrackTool(): ConntrackTool {
  const entries: ConntrackEntry[] = [];

  const one = (args: readonly string[]): ToolResult => {
    const [command, ...rest] = args;
    const deletes = command === "-D" || command === "--delete";
    if (!deletes && command !== "-L" && command !== "--dump") throw new Unsupported(`conntrack ${command}`);
    const filters = parseFilters(rest);
    if (typeof filters === "string") return { exitCode: 2, stdout: "", stderr: `${BANNER}${filters}\n${HINT}` };
    const found = entries.filter((entry) => filters.every((filter) => filter(entry)));
    if (deletes) { for (const entry of found) entries.splice(entries.indexOf(entry), 1); }
    return {
      exitCode: deletes && found.length === 0 ? 1 : 0,
      stdout: found.map((entry) => `${entryLine(entry)}\n`).join(""),
      stderr: `${BANNER}${found.length} flow entries have been ${deletes ? "deleted" : "shown"}.\n`,
    };
  };

  return {
    entries,
    run(args, stdin) {
      if (args[0] !== "--load-file" && args[0] !== "-R") return one(args);
      if (args[1] !== "-") throw new Unsupported(`conntrack --load-file ${args[1]}`);
      const commands = stdin.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#")).map(splitWords);
      // conntrack parses the whole file first and prints no counts for its commands.
      const wrong = commands.map((words) => parseFilters(words.slice(1))).find((filters) =>
        typeof filters === "string"
      );
      if (wrong !== undefined) return { exitCode: 2, stdout: "", stderr: `${BANNER}${wrong}\n${HINT}` };
      return { exitCode: 0, stdout: commands.map((words) => one(words).stdout).join(""), stderr: "" };
    },
  };
}

function parseFilters(words: readonly string[]): Filter[] | string {
  const filters: Filter[] = [];
  let family: Family | undefined;
  for (let i = 0; i < words.length; i += 2) {
    const option = ALIASES[words[i]!] ?? words[i]!, value = words[i + 1];
    if (option === "--dst-nat" && (value === undefined || value.startsWith("-"))) {
      filters.push(isTranslated);
      i--;
      continue;
    }
    const filter = Object.hasOwn(FILTERS, option) ? FILTERS[option] : undefined;
    if (!filter) return `unknown option \`${words[i]}'`;
    if (value === undefined) return `option \`${words[i]}' requires an argument`;
    if (option === "-p" && !Object.hasOwn(NUMBERS, value)) return `\`${value}' unsupported protocol`;
    const isAddress = ADDRESS_OPTIONS.includes(option);
    const address = isAddress ? canonicalAddress(value) : undefined;
    if (isAddress && address === undefined) return `Invalid IP address \`${value}'`;
    const valueFamily = address !== undefined ? familyOf(address) : option === "-f" ? FAMILIES[value] : undefined;
    if (valueFamily !== undefined && family !== undefined && valueFamily !== family) return "mismatched address family";
    family ??= valueFamily;
    filters.push(filter(address ?? value));
  }
  return filters;
}

function protocolOf(entry: ConntrackEntry): keyof typeof NUMBERS {
  return entry.protocol ?? "udp";
}

function stateOf(entry: ConntrackEntry): string | undefined {
  return protocolOf(entry) === "udp" ? undefined : entry.state ?? "ESTABLISHED";
}

function replySource(entry: ConntrackEntry): { readonly address: string; readonly port: number } {
  return entry.answeredBy ?? { address: entry.destination, port: entry.destinationPort };
}

function isTranslated(entry: ConntrackEntry): boolean {
  const { address, port } = replySource(entry);
  return address !== entry.destination || port !== entry.destinationPort;
}

function entryLine(entry: ConntrackEntry): string {
  const protocol = protocolOf(entry), by = replySource(entry);
  const state = protocol === "udp" ? "" : `${stateOf(entry)} `;
  const original =
    `src=${entry.source} dst=${entry.destination} sport=${entry.sourcePort} dport=${entry.destinationPort}`;
  const reply = `src=${by.address} dst=${entry.source} sport=${by.port} dport=${entry.sourcePort}`;
  return `${protocol.padEnd(8)} ${NUMBERS[protocol]} 29 ${state}${original} [UNREPLIED] ${reply} mark=0 use=1`;
}
