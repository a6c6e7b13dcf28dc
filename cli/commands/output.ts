import { boolean, choice, type ChoiceFlag, type Flag, option } from "../../config/mod.ts";
import { chosen, type Invocation } from "./command.ts";

/** The flags that select the format of a command's output. */
export interface OutputFlags<Format extends string> {
  readonly choice: ChoiceFlag<Format>;
  readonly flags: readonly Flag[];
}

/** Creates the flags `-o FORMAT` and `--json`, which is short for `-o json`. The first format is the default. */
export function outputFlags<Format extends string>(
  formats: readonly [Format, ...Format[]],
): OutputFlags<Format | "json"> {
  const formatChoice = choice<Format | "json">("output", formats, "Output format.", "o");
  return { choice: formatChoice, flags: [formatChoice, option("json", boolean(), "Short for -o json.")] };
}

/** Returns the selected format. */
export function outputOf<Format extends string>(invocation: Invocation, output: OutputFlags<Format>): Format | "json" {
  return invocation.flags.get("json") === true ? "json" : chosen(invocation, output.choice);
}
