import type { GivenFlags } from "./arguments.ts";
import { formatDuration } from "./duration.ts";
import { FLAGS } from "./flag_table.ts";
import type { Flag } from "./flags.ts";

/**
 * Every flag of `run` by name, in alphabetical order, with the value that was given or else its default, written as Go's
 * pflag writes it (for `/flagz`).
 */
export function flagTexts(given: GivenFlags): Readonly<Record<string, string>> {
  const names = FLAGS.toSorted((a, b) => a.name < b.name ? -1 : 1);
  return Object.fromEntries(names.map((flag) => [flag.name, textOf(flag, given.get(flag.name) ?? flag.field.initial)]));
}

function textOf({ field }: Flag, value: unknown): string {
  switch (field.kind) {
    case "duration":
      return formatDuration(value as number);
    case "texts":
      return `[${(value as readonly string[]).join(",")}]`;
    case "switches":
      return Object.entries(value as Readonly<Record<string, boolean>>).map(([name, state]) => `${name}=${state}`)
        .sort().join(",");
    default:
      return String(value);
  }
}
