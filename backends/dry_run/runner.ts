import type { ModeTool, ToolReading } from "../contract/mod.ts";
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

/**
 * A runner that starts no tool that could change anything.
 * @param tools the tools of the mode
 */
export function createDryRunner({ read, onChange }: DryRunnerOptions, tools: readonly ModeTool[]): Runner {
  return {
    isDry: true,
    async run(call) {
      const { tool, args, stdin, changes } = call;
      if (onlyReads(call, tools)) return read === undefined ? answerOfEmptyKernel(call, tools) : await read.run(call);
      if (changes) onChange({ tool, args, stdin, changes });
      return DONE;
    },
  };
}

const DONE: ToolResult = { exitCode: 0, stdout: "", stderr: "" };

function onlyReads({ tool, args, changes }: ToolCall, tools: readonly ModeTool[]): boolean {
  if (changes) return false;
  if (tool.endsWith("-save")) return true;
  if (args.includes("--version")) return true;
  if (tool === "sysctl") return !args.some((arg) => arg === "-w" || arg.includes("="));
  return readingOf(tool, tools)?.words.some((word) => args.includes(word)) ?? false;
}

function answerOfEmptyKernel({ tool, args }: ToolCall, tools: readonly ModeTool[]): ToolResult {
  if (args.includes("--version")) return { ...DONE, stdout: `${tool} (nf_tables)\n` };
  const error = readingOf(tool, tools)?.errorIfEmpty;
  return error === undefined ? DONE : { ...DONE, exitCode: 1, stderr: `${error}\n` };
}

function readingOf(name: string, tools: readonly ModeTool[]): ToolReading | undefined {
  return tools.find(({ tool }) => tool === name)?.reading;
}
