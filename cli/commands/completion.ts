import type { CommandSpec } from "../../config/mod.ts";
import type { Shell } from "../manual/mod.ts";
import type { Command } from "./command.ts";

const SHELLS: readonly Shell[] = ["bash", "zsh", "fish"];

/** Creates `sluice completion` for these commands. */
export function createCompletionCommand(commands: () => readonly CommandSpec[]): Command {
  return {
    name: "completion",
    summary: "Print the completion script of a shell; sluice install installs it.",
    arguments: [{ name: SHELLS.join("|"), description: "the shell", required: true, values: SHELLS }],
    flags: [],
    withoutSource: true,
    examples: [
      { line: "sluice completion bash", does: "load it in ~/.bashrc with source <(sluice completion bash)" },
      { line: "sluice completion fish", does: "load it in config.fish with sluice completion fish | source" },
    ],
    async start({ arguments: [shell], print }) {
      const { completionScript } = await import("../manual/mod.ts");
      print(completionScript(shell as Shell, commands()));
      return 0;
    },
  };
}
