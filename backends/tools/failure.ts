import type { Runner, ToolCall, ToolResult } from "./runner.ts";

/** The kinds of tool failures that callers handle differently. */
type FailureKind =
  | "killed" // a signal ended it, such as the out-of-memory killer's; how much of its input is in effect is unknown
  | "unexplained" // it failed without a message; how much is in effect is unknown
  | "no resources" // memory or buffer space is missing
  | "forbidden" // a privilege is missing
  | "busy" // another program holds a lock
  | "absent" // an object that the call names does not exist
  | "done already" // the kernel is already in the state that the call requests
  | "unsupported" // the tool or the kernel lacks a feature
  | "refused"; // any other failure: the tool or the kernel refuses the input

/** Messages and their meaning, in the order in which they are matched. */
type FailureTable = readonly (readonly [kind: FailureKind, message: RegExp])[];

/** A run of a tool that failed. */
export interface ToolFailure {
  readonly kind: FailureKind;
  /** In one line: the call, its exit status, and the message on standard error. */
  readonly text: string;
}

/** Messages of any tool that are matched before all others. */
const HOST_MESSAGES: FailureTable = [
  ["no resources", /Resource temporarily unavailable|No buffer space|Cannot allocate memory/i],
  ["forbidden", /not permitted|Permission denied/i],
];

/**
 * Messages of one tool, those of iptables for all of its commands: conntrack 1.4, nft 0.9 to 1.1, iptables 1.8, ipset 7,
 * ipvsadm 1.31, iproute2 5.10 to 6.15. Some of iproute2's are Linux's own, with another text since 6.6.
 *
 * `ipset restore -exist` succeeds for entries that are already there or already gone. iptables-legacy-restore names no reason.
 */
const TOOL_MESSAGES: Readonly<Record<string, FailureTable>> = {
  conntrack: [
    ["done already", /\b0 flow entries have been deleted/],
    // The entry ended while conntrack deleted it. conntrack stops there, so that other entries may remain.
    ["absent", /such conntrack doesn't exist/],
  ],
  // Netlink has no room for a message of that size.
  nft: [["no resources", /Message too long/i], ["absent", /No such file or directory/]],
  iptables: [
    ["busy", /xtables lock/i],
    // A rule jumps to a chain that does not exist: iptables-nft, and iptables-legacy, which then searches for an extension.
    ["absent", /Chain '[^']*' does not exist|Couldn't load target `KUBE-/],
    // A rule to delete.
    ["absent", /does a matching rule exist in that chain/],
  ],
  ipset: [["absent", /set with the given name does not exist/]],
  ipvsadm: [
    ["forbidden", /must be root/],
    ["absent", /No such (?:service|destination)|Service not defined/],
    ["done already", /already exists/],
  ],
  ip: [
    // Addresses and links that exist, routes and addresses that do not.
    ["done already", /File exists|address already assigned/i],
    ["done already", /No such process|Cannot assign requested address|address not found/i],
    ["absent", /Device "[^"]*" does not exist|Cannot find device|FIB table does not exist/],
  ],
};

/** Messages of any tool that are matched if its own table has no match: iptables 1.8, nft 1.0, ipvsadm 1.31. */
const FEATURE_MESSAGES: FailureTable = [
  [
    "unsupported",
    /not supported|unsupported|unrecognized|protocol not available|couldn't load|no chain\/target\/match/i,
  ],
  ["unsupported", /unknown (?:option|arg|match|target|identifier)|syntax error|datatype mismatch/i],
  ["unsupported", /does not exist|no such file|invalid argument|conflicting protocols|bad argument/i],
];

/** Classifies the failure of a tool, named as in a call, by its standard error. */
export function classifyFailure(tool: string, stderr: string): FailureKind {
  if (stderr.trim() === "") return "unexplained";
  const own = TOOL_MESSAGES[tool.replace(/^ip6?tables.*/, "iptables")] ?? [];
  for (const messages of [HOST_MESSAGES, own, FEATURE_MESSAGES]) {
    for (const [kind, message] of messages) if (message.test(stderr)) return kind;
  }
  return "refused";
}

/** The failure of a run; undefined if it succeeded. `call` is the tool's name, with a subcommand if that helps. */
export function failureOf(call: string, result: ToolResult): ToolFailure | undefined {
  const { exitCode, stderr } = result, [tool] = call.split(" ", 1) as [string];
  if (exitCode === 0) return undefined;
  return { kind: isOfSignal(exitCode) ? "killed" : classifyFailure(tool, stderr), text: failureText(call, result) };
}

/** Whether an exit status stands for one of Linux's 64 signals. ipvsadm exits with 255 if the kernel refuses its input. */
function isOfSignal(exitCode: number): boolean {
  return exitCode > 128 && exitCode <= 192;
}

/** Throws an error with the failure's text if a run of a tool failed. */
export function requireSuccess(call: string, result: ToolResult): void {
  const failure = failureOf(call, result);
  if (failure) throw new Error(failure.text);
}

/**
 * Runs a tool and returns its result. Throws an error with the failure's text if it failed.
 * @param name the call in that text; the tool's name by default
 */
export async function runOrThrow(runner: Runner, call: ToolCall, name: string = call.tool): Promise<ToolResult> {
  const result = await runner.run(call);
  requireSuccess(name, result);
  return result;
}

/** The signals that commonly end a tool, by number (signal(7)). */
const SIGNALS: Readonly<Record<number, string>> = {
  4: "SIGILL",
  6: "SIGABRT",
  7: "SIGBUS",
  8: "SIGFPE",
  9: "SIGKILL",
  11: "SIGSEGV",
  15: "SIGTERM",
  31: "SIGSYS",
};

/** A tool's failure in one line: the call, its exit status or signal, and the message on standard error. */
export function failureText(call: string, { exitCode, stderr }: ToolResult): string {
  const message = stderr.split("\n").map((line) => line.trim()).filter((line) => line !== "").join("; ");
  if (isOfSignal(exitCode)) {
    const signal = SIGNALS[exitCode - 128] ?? `signal ${exitCode - 128}`;
    return `${call} was ended by ${signal}${message && `: ${message}`}`;
  }
  return `${call} failed with exit status ${exitCode}: ${message || "no message"}`;
}

const HOST_KINDS: readonly FailureKind[] = ["killed", "unexplained", "no resources", "forbidden", "busy"];

/** Whether the host is at fault rather than the input, so that a search for the refused part would find nothing. */
export function isHostFailure({ kind }: Pick<ToolFailure, "kind">): boolean {
  return HOST_KINDS.includes(kind);
}

/** Whether it is unknown how much of the input is in effect. */
export function isOutcomeUnknown({ kind }: Pick<ToolFailure, "kind">): boolean {
  return kind === "killed" || kind === "unexplained";
}

/** Whether the tool or the kernel lacks something that the call needs, so that a retry cannot succeed. */
export function isLackOfFeature({ kind }: Pick<ToolFailure, "kind">): boolean {
  return kind === "unsupported" || kind === "absent";
}
