import type { CommandSpec } from "../../config/mod.ts";
import { bashCompletion } from "./bash.ts";
import { fishCompletion } from "./fish.ts";
import { vocabularyOf } from "./vocabulary.ts";
import { zshCompletion } from "./zsh.ts";

/** A shell with a completion script. */
export type Shell = "bash" | "zsh" | "fish";

/** Returns the completion script for a program with these commands. */
export function completionScript(shell: Shell, commands: readonly CommandSpec[]): string {
  const vocabulary = vocabularyOf(commands);
  switch (shell) {
    case "bash":
      return bashCompletion(vocabulary);
    case "zsh":
      return zshCompletion(vocabulary);
    case "fish":
      return fishCompletion(vocabulary);
  }
}
