import { type CommandSpec, type Flag, FLAG_GROUPS } from "../../config/mod.ts";

/** What may follow a flag. */
export type Following =
  | { readonly kind: "nothing" }
  | { readonly kind: "words"; readonly words: readonly string[] }
  | { readonly kind: "file" } // or any other text, which nobody can complete
  | { readonly kind: "number" };

/** A flag as a shell completes it. */
export interface FlagWords {
  readonly name: string;
  readonly letter: string | undefined;
  readonly description: string;
  readonly following: Following;
}

/** A command as a shell completes it. */
export interface CommandWords {
  readonly name: string;
  readonly summary: string;
  /** The words that its arguments can be. */
  readonly words: readonly string[];
  /** The flags that it has alone; it takes those of all commands, too. */
  readonly flags: readonly FlagWords[];
}

/** Everything that a shell can complete. */
export interface Vocabulary {
  readonly commands: readonly CommandWords[];
  /** The flags that every command takes; not those that are without effect. */
  readonly common: readonly FlagWords[];
}

/** The words of a program with these commands. */
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
      flags: flags.map(wordsOf),
    })),
    common: [help, ...common.map(wordsOf)],
  };
}

function wordsOf({ name, letter, description, field, values }: Flag): FlagWords {
  return { name, letter, description, following: followingOf(field.kind, values) };
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
