/** Shell completions: what a shell can complete, and a script for each shell. */
import { type CommandSpec, type Flag, FLAG_GROUPS } from "../../config/mod.ts";

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

/** The command that prints the names of all services, for completion. */
const SERVICE_NAMES = "sluice get services -o name 2>/dev/null";

/** Kind of a flag's value. */
type Following =
  | { readonly kind: "nothing" }
  | { readonly kind: "words"; readonly words: readonly string[] }
  | { readonly kind: "file" } // or other text without completion
  | { readonly kind: "number" };

/** A flag for completion. */
interface FlagWords {
  readonly name: string;
  readonly letter: string | undefined;
  readonly description: string;
  readonly following: Following;
}

/** A command for completion. */
interface CommandWords {
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
interface Vocabulary {
  readonly commands: readonly CommandWords[];
  /** Flags of all commands, except flags without effect. */
  readonly common: readonly FlagWords[];
}

/** Builds the vocabulary of a program with these commands. */
function vocabularyOf(commands: readonly CommandSpec[]): Vocabulary {
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

/** Returns the completion script for bash; it needs no bash-completion package. */
function bashCompletion({ commands, common }: Vocabulary): string {
  const names = commands.map(({ name }) => name);
  const ofCommand = commands.filter(({ words, flags }) => words.length + flags.length > 0).map(
    ({ name, words, flags, takesService }) =>
      `    ${name}) words='${words.join(" ")}' flags='${spellings(flags).join(" ")}'${
        takesService ? " services=yes" : ""
      } ;;\n`,
  );
  const values = [
    ...commands.flatMap(({ name, flags }) => valueCases(flags, name)),
    ...valueCases(common, "*"),
  ];
  return `# Completion of sluice for bash: source <(sluice completion bash)
_sluice() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} command=run words= flags= services=
  COMPREPLY=()
  # --flag=value arrives as three words.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=\${COMP_WORDS[COMP_CWORD-2]}
  fi
  if [[ COMP_CWORD -gt 1 && \${COMP_WORDS[1]} != -* ]]; then command=\${COMP_WORDS[1]}; fi
  case "$command" in
${ofCommand.join("")}    help) words='${names.join(" ")}' ;;
  esac
  case "$command $previous" in
${values.join("")}  esac
  if [[ $current == -* ]]; then
    words="$flags ${spellings(common).join(" ")}"
  elif [[ COMP_CWORD -eq 1 ]]; then
    words='${[...names, "help"].join(" ")}'
  elif [[ -n $services ]]; then
    words="$words $(${SERVICE_NAMES})"
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _sluice sluice
`;
}

/** Returns a case per flag that takes a value: fixed words, a file, or no completion. */
function valueCases(flags: readonly FlagWords[], command: string): string[] {
  const pattern = (flag: FlagWords) =>
    spellings([flag]).map((spelling) => command === "*" ? `*" ${spelling}"` : `"${command} ${spelling}"`).join("|");
  const does = ({ following }: FlagWords): string | undefined => {
    switch (following.kind) {
      case "nothing":
        return undefined;
      case "words":
        return `COMPREPLY=($(compgen -W '${following.words.join(" ")}' -- "$current"))`;
      case "file":
        return `COMPREPLY=($(compgen -f -- "$current"))`;
      case "number":
        return `compopt +o default 2>/dev/null`;
    }
  };
  return flags.flatMap((flag) => {
    const action = does(flag);
    return action === undefined ? [] : [`    ${pattern(flag)}) ${action}; return ;;\n`];
  });
}

function spellings(flags: readonly FlagWords[]): string[] {
  return flags.flatMap(({ name, letter }) => letter === undefined ? [`--${name}`] : [`--${name}`, `-${letter}`]);
}

/** Returns the completion script for fish. */
function fishCompletion({ commands, common }: Vocabulary): string {
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

/** Returns the completion script for zsh, to be saved as _sluice in a folder of its fpath. */
function zshCompletion({ commands, common }: Vocabulary): string {
  return `#compdef sluice
# Completion of sluice for zsh: sluice completion zsh > /usr/local/share/zsh/site-functions/_sluice
_sluice() {
  local command=run services= previous=\${words[CURRENT-1]} current=\${words[CURRENT]}
  local -a own common candidates
  if (( CURRENT > 2 )) && [[ \${words[2]} != -* ]]; then command=\${words[2]}; fi
  if [[ $current == --*=* ]]; then
    previous=\${current%%=*}
    compset -P '*='
    current=\${current#*=}
  fi
  case $command in
${commands.map(ownCase).join("")}  esac
  case "$command $previous" in
${[...commands.flatMap(({ name, flags }) => zshValueCases(flags, name)), ...zshValueCases(common, "*")].join("")}  esac
  if [[ $current == -* ]]; then
    common=(${described(common).join(" ")})
    _describe -t flags flag own -- common
  elif (( CURRENT == 2 )) || [[ $command == help ]]; then
    candidates=(${commands.map(({ name, summary }) => zshQuoted(`${name}:${summary}`)).join(" ")})
    _describe -t commands command candidates
  else
    if [[ -n $services ]]; then candidates+=(\${(f)"$(eval $services)"}); fi
    _describe -t words word candidates
  fi
}
_sluice "$@"
`;
}

function ownCase({ name, words, flags, takesService }: CommandWords): string {
  const names = takesService ? ` services='${SERVICE_NAMES}'` : "";
  return `    ${name}) own=(${described(flags).join(" ")}) candidates=(${words.map(zshQuoted).join(" ")})${names} ;;\n`;
}

function zshValueCases(flags: readonly FlagWords[], command: string): string[] {
  const before = command === "*" ? "*" : command;
  return flags.flatMap((flag) => {
    const { name, following } = flag;
    const patterns = spellings([flag]).map((spelling) => `${before}\\ ${spelling}`).join("|");
    switch (following.kind) {
      case "nothing":
        return [];
      case "words":
        return [
          `    ${patterns}) candidates=(${
            following.words.join(" ")
          }); _describe -t values value candidates; return ;;\n`,
        ];
      case "file":
        return [`    ${patterns}) _files; return ;;\n`];
      case "number":
        return [`    ${patterns}) _message ${zshQuoted(name)}; return ;;\n`];
    }
  });
}

function described(flags: readonly FlagWords[]): string[] {
  return flags.map(({ name, description }) => zshQuoted(`--${name}:${description}`));
}

function zshQuoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
