import type { CommandSpec } from "../../config/mod.ts";
import type { Shell } from "../manual/mod.ts";
import type { Command } from "./command.ts";

const SHELLS: readonly Shell[] = ["bash", "zsh", "fish"];

/** The completions of a shell for these commands. */
export function createCompletionCommand(commands: () => readonly CommandSpec[]): Command {
  return {
    name: "completion",
    summary: "Print the completions for a shell; install puts them in place.",
    arguments: [{ name: SHELLS.join("|"), description: "the shell", required: true, values: SHELLS }],
    flags: [],
    examples: [
      { line: "sluice completion bash", does: "for source <(sluice completion bash) in ~/.bashrc" },
      { line: "sluice completion fish", does: "for sluice completion fish | source in config.fish" },
    ],
    async start({ arguments: [shell], print }) {
      const { completionScript } = await import("../manual/mod.ts");
      print(completionScript(shell as Shell, commands()));
      return 0;
    },
  };
}
