/** Commands and flags as a help, a page of the manual or a message writes them. */
import { type CommandSpec, RUN } from "./command_spec.ts";
import type { Flag } from "./flags.ts";
import { standsAlone } from "./go_flags.ts";

/** `sluice explain ADDRESS:PORT [flags]`. */
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

/** Characters of the words that a flag takes that its placeholder may list. */
const MOST_WORDS = 24;

/** What stands for a flag's value in a list of flags: `<a|b>`, `<duration>`, `[true|false]` where it may stand alone. */
export function placeholderOf(flag: Flag): string {
  if (standsAlone(flag)) return "[true|false]";
  const words = flag.values?.join("|") ?? "";
  return `<${words !== "" && words.length <= MOST_WORDS ? words : PLACEHOLDERS[flag.field.kind]}>`;
}
