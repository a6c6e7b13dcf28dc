import type { Flag } from "./flags.ts";

/** An argument of a command, beside its flags. */
export interface ArgumentSpec {
  /** As the help writes it: `ADDRESS:PORT`. */
  readonly name: string;
  readonly description: string;
  readonly required: boolean;
  /** The words that it can be, where they are known beforehand. */
  readonly values?: readonly string[];
}

/** What one command is to those who call it: the source of its help, its completions and its page of the manual. */
export interface CommandSpec {
  readonly name: string;
  /** One line of the program's help; begins with a verb, ends with a full stop. */
  readonly summary: string;
  readonly arguments: readonly ArgumentSpec[];
  /** The flags that only this command has; every command takes those of `run`, too. */
  readonly flags: readonly Flag[];
  /** Whole command lines that show what it is for, each with a few words on what it does. */
  readonly examples: readonly { readonly line: string; readonly does: string }[];
}

/** The command that a command line without one means: the proxy itself. */
export const RUN = "run";
