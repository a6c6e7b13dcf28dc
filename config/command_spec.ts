import { type Flag, takesNoValue } from "./flags.ts";

/** A positional argument of a command. */
export interface ArgumentSpec {
  /** Its name in the help: `ADDRESS:PORT`. */
  readonly name: string;
  readonly description: string;
  readonly required: boolean;
  /** The allowed values, if the argument is an enumeration. */
  readonly values?: readonly string[];
  /** Other spellings of the allowed values: `svc` for `services`. */
  readonly aliases?: Readonly<Record<string, string>>;
  /** Whether it takes any number of words; only the last argument may. */
  readonly repeats?: true;
  /** The names that a shell completes from the running proxy. */
  readonly completes?: "service";
}

/** The interface of a command, from which its help, completions and man page are generated. */
export interface CommandSpec {
  readonly name: string;
  /** One line of the program's help; starts with a verb, ends with a full stop. */
  readonly summary: string;
  readonly arguments: readonly ArgumentSpec[];
  /**
   * The command's own flags; every command also takes those of `run`. One with the name of a flag of `run` replaces it: the
   * configuration does not depend on it.
   */
  readonly flags: readonly Flag[];
  /** Whether it reads neither the cluster nor a server, so that its help leaves out the flags of the source. */
  readonly withoutSource?: true;
  /**
   * The part of the installed service that applies if no flag of `run` is given: its configuration and flags, or only the
   * path of its control socket. It does not apply with one of the flags in `unless`.
   */
  readonly installed?: { readonly part: "configuration" | "socket"; readonly unless?: readonly string[] };
  /** Complete command lines, each with a short explanation. */
  readonly examples: readonly { readonly line: string; readonly does: string }[];
}

/** The default command: the proxy itself. */
export const RUN = "run";

/** The usage line of a command: `sluice explain ADDRESS:PORT [flags]`. */
export function usageLine(spec: CommandSpec): string {
  const name = spec.name === RUN ? `[${RUN}]` : spec.name;
  const words = spec.arguments.map(({ name, required }) => required ? name : `[${name}]`);
  return ["sluice", name, ...words, "[flags]"].join(" ");
}

const PLACEHOLDERS: Readonly<Record<Flag["field"]["kind"], string>> = {
  text: "text",
  boolean: "true|false",
  integer: "n",
  number: "n",
  duration: "duration",
  quantity: "quantity",
  texts: "a,b,…",
  switches: "name=true,…",
};

/** The longest list of allowed values that a placeholder shows, in characters. */
const MOST_WORDS = 24;

/** The placeholder for a flag's value in help texts: `<a|b>`, `<duration>`, or `[true|false]` if the value is optional. */
export function placeholderOf(flag: Flag): string {
  if (takesNoValue(flag)) return "[true|false]";
  const words = flag.values?.join("|") ?? "";
  return `<${words !== "" && words.length <= MOST_WORDS ? words : PLACEHOLDERS[flag.field.kind]}>`;
}
