import type { Runner, ToolCall, ToolResult } from "../tools/mod.ts";

/** A run of a tool that would change something, and did not take place. */
export interface RehearsedCall {
  readonly tool: string;
  readonly args: readonly string[];
  /** What it would have read on standard input; can be gone through once. Undefined where it reads nothing. */
  readonly stdin: Iterable<string> | undefined;
}

/** What a rehearsal's tools answer with. */
export interface RehearsalOptions {
  /** Runs what only reads; undefined for a kernel that holds nothing, and tools as new as can be. */
  readonly read: Runner | undefined;
  /** Takes each run that would change something; the tool then counts as having done it. */
  readonly onChange: (call: RehearsedCall) => void;
  /** Takes each line that a reading tool prints. */
  readonly onRead?: (call: ToolCall, line: string) => void;
}

/** A runner that starts nothing that could change anything. */
export function createRehearsalRunner({ read, onChange, onRead }: RehearsalOptions): Runner {
  return {
    async run(call) {
      if (!onlyReads(call)) {
        onChange({ tool: call.tool, args: call.args, stdin: call.stdin });
        return DONE;
      }
      if (read === undefined) return answerOfNothing(call);
      if (!onRead || !call.onLine) return await read.run(call);
      const { onLine } = call;
      return await read.run({
        ...call,
        onLine(line) {
          onRead(call, line);
          onLine(line);
        },
      });
    },
  };
}

const DONE: ToolResult = { exitCode: 0, stdout: "", stderr: "" };

/** By tool, the words that begin an invocation which only reads; iptables-save and its like do nothing else. */
const READING_WORDS: Readonly<Record<string, readonly string[]>> = {
  nft: ["list"],
  ipset: ["list", "save", "-L", "-S"],
  ipvsadm: ["-L", "-Ln", "-S", "--list", "--save"],
  ip: ["show"],
  iptables: [],
  ip6tables: [],
};

function onlyReads({ tool, args }: ToolCall): boolean {
  if (tool.endsWith("-save")) return true;
  if (args.includes("--version")) return true;
  if (tool === "sysctl") return !args.some((arg) => arg === "-w" || arg.includes("="));
  return READING_WORDS[tool]?.some((word) => args.includes(word)) ?? false;
}

/** What tools say on a host without a rule. */
function answerOfNothing({ tool, args }: ToolCall): ToolResult {
  if (args.includes("--version")) return { ...DONE, stdout: `${tool} (nf_tables)\n` };
  if (tool === "nft") return { ...DONE, exitCode: 1, stderr: "Error: No such file or directory\n" };
  return DONE;
}
