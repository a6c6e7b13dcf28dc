import type { Runner, ToolCall, ToolResult } from "../tools/mod.ts";

/** A run of a tool that would change the kernel, and did not take place. */
export interface DryRunCall {
  readonly tool: string;
  readonly args: readonly string[];
  /** Its standard input; undefined for a tool that reads none. */
  readonly stdin: ToolCall["stdin"];
  /** The places that it would change. */
  readonly changes: NonNullable<ToolCall["changes"]>;
}

/** Options of `createDryRunner`. */
export interface DryRunnerOptions {
  /** Runs tools that only read; undefined for an empty kernel and the newest tools. */
  readonly read: Runner | undefined;
  /** Takes each run that would change the kernel; the tool then counts as successful. */
  readonly onChange: (call: DryRunCall) => void;
}

/** A runner that starts no tool that could change anything. */
export function createDryRunner({ read, onChange }: DryRunnerOptions): Runner {
  return {
    isDry: true,
    async run(call) {
      const { tool, args, stdin, changes } = call;
      if (onlyReads(call)) return read === undefined ? answerOfEmptyKernel(call) : await read.run(call);
      if (changes) onChange({ tool, args, stdin, changes });
      return DONE;
    },
  };
}

const DONE: ToolResult = { exitCode: 0, stdout: "", stderr: "" };

/** The words that mark a read-only invocation, by tool; tools like iptables-save only read. */
const READING_WORDS: Readonly<Record<string, readonly string[]>> = {
  nft: ["list"],
  ipset: ["list", "save", "-L", "-S"],
  ipvsadm: ["-L", "-Ln", "-S", "--list", "--save"],
  ip: ["show"],
};

function onlyReads({ tool, args, changes }: ToolCall): boolean {
  if (changes) return false;
  if (tool.endsWith("-save")) return true;
  if (args.includes("--version")) return true;
  if (tool === "sysctl") return !args.some((arg) => arg === "-w" || arg.includes("="));
  return READING_WORDS[tool]?.some((word) => args.includes(word)) ?? false;
}

function answerOfEmptyKernel({ tool, args }: ToolCall): ToolResult {
  if (args.includes("--version")) return { ...DONE, stdout: `${tool} (nf_tables)\n` };
  if (tool === "nft") return { ...DONE, exitCode: 1, stderr: "Error: No such file or directory\n" };
  return DONE;
}
