import { type FlagWords, SERVICE_NAMES, type Vocabulary } from "./vocabulary.ts";

/** Returns the completion script for fish. */
export function fishCompletion({ commands, common }: Vocabulary): string {
  const lines = ["# Completion of sluice for fish: sluice completion fish | source", "complete -c sluice -f"];
  for (const { name, summary, words, takesService, flags } of commands) {
    lines.push(`complete -c sluice -n __fish_use_subcommand -a ${name} -d ${quoted(summary)}`);
    const inCommand = `-n ${quoted(`__fish_seen_subcommand_from ${name}`)}`;
    if (words.length > 0) lines.push(`complete -c sluice ${inCommand} -a ${quoted(words.join(" "))}`);
    if (takesService) lines.push(`complete -c sluice ${inCommand} -a ${quoted(`(${SERVICE_NAMES})`)}`);
    for (const flag of flags) lines.push(`complete -c sluice ${inCommand} ${flagOptions(flag)}`);
  }
  const names = commands.map(({ name }) => name).join(" ");
  lines.push(`complete -c sluice -n __fish_use_subcommand -a help -d 'Show the help of a command.'`);
  lines.push(`complete -c sluice -n '__fish_seen_subcommand_from help' -a ${quoted(names)}`);
  for (const flag of common) lines.push(`complete -c sluice ${flagOptions(flag)}`);
  return `${lines.join("\n")}\n`;
}

function flagOptions({ name, letter, description, following }: FlagWords): string {
  const short = letter === undefined || letter === name ? "" : `-s ${letter} `;
  // fish requires -s for one-letter names.
  const long = name.length === 1 ? `-s ${name}` : `-l ${name}`;
  return `${short}${long} ${argumentOptions(following)}-d ${quoted(description)}`;
}

function argumentOptions(following: FlagWords["following"]): string {
  switch (following.kind) {
    case "nothing":
      return "";
    case "words":
      return `-x -a ${quoted(following.words.join(" "))} `;
    case "file":
      return "-r -F ";
    case "number":
      return "-x ";
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
