import type { Runner, ToolResult } from "../../backends/tools/runner.ts";

/** A runner that counts the input of the tools and never changes the (empty) kernel. */
export interface CountingRunner extends Runner {
  /** The number of characters of input so far. */
  characters(): number;
}

const DONE: ToolResult = { exitCode: 0, stdout: "", stderr: "" };
const VERSION: ToolResult = { exitCode: 0, stdout: "iptables v1.8.9 (nf_tables)\n", stderr: "" };
const NO_TABLE: ToolResult = { exitCode: 1, stdout: "", stderr: "Error: No such file or directory" };

/** Creates a runner for a kernel without rules. */
export function createCountingRunner(): CountingRunner {
  let characters = 0;
  return {
    run({ tool, args, stdin }) {
      for (const piece of stdin ?? []) characters += piece.length;
      if (args[0] === "--version") return Promise.resolve(VERSION);
      return Promise.resolve(tool === "nft" && args[0] === "list" ? NO_TABLE : DONE);
    },
    characters: () => characters,
  };
}
