import { type CommandSpec, type Flag, FLAG_GROUPS } from "../../config/mod.ts";

/** The command that prints the names of all services, for completion. */
export const SERVICE_NAMES = "sluice get services -o name 2>/dev/null";

/** Kind of a flag's value. */
export type Following =
  | { readonly kind: "nothing" }
  | { readonly kind: "words"; readonly words: readonly string[] }
  | { readonly kind: "file" } // or other text without completion
  | { readonly kind: "number" };

/** A flag for completion. */
export interface FlagWords {
  readonly name: string;
  readonly letter: string | undefined;
  readonly description: string;
  readonly following: Following;
}

/** A command for completion. */
export interface CommandWords {
  readonly name: string;
  readonly summary: string;
  /** Fixed values of its arguments. */
  readonly words: readonly string[];
  /** Whether an argument is the name of a service, which `SERVICE_NAMES` lists. */
  readonly takesService: boolean;
  /** Its own flags, without those common to all commands. */
  readonly flags: readonly FlagWords[];
}

/** Everything a shell can complete. */
export interface Vocabulary {
  readonly commands: readonly CommandWords[];
  /** Flags of all commands, without those that have no effect. */
  readonly common: readonly FlagWords[];
}

/** Builds the vocabulary of a program with these commands. */
export function vocabularyOf(commands: readonly CommandSpec[]): Vocabulary {
  const help: FlagWords = {
    name: "help",
    letter: "h",
    description: "Show the help.",
    following: { kind: "nothing" },
  };
  const common = FLAG_GROUPS.flatMap(({ flags }) => flags).filter(({ effective }) => effective);
  return {
    commands: commands.map(({ name, summary, arguments: words, flags }) => ({
      name,
      summary,
      words: words.flatMap(({ values }) => values ?? []),
      takesService: words.some(({ completes }) => completes === "service"),
      flags: flags.map(wordsOf),
    })),
    common: [help, ...common.map(wordsOf)],
  };
}

function wordsOf({ name, letter, description, field, values, suggestions }: Flag): FlagWords {
  return { name, letter, description, following: followingOf(field.kind, values ?? suggestions) };
}

function followingOf(kind: Flag["field"]["kind"], words: readonly string[] | undefined): Following {
  if (words !== undefined) return { kind: "words", words };
  switch (kind) {
    case "boolean":
      return { kind: "nothing" };
    case "text":
      return { kind: "file" };
    default:
      return { kind: "number" };
  }
}
