/** Shell completions: a script for each shell. */
import { boolean, type CommandSpec, type Flag, FLAG_GROUPS, option } from "../../config/mod.ts";

/** A shell with a completion script. */
export type Shell = "bash" | "zsh" | "fish";

/** Returns the completion script for a program with these commands. */
export function completionScript(shell: Shell, commands: readonly CommandSpec[]): string {
  return { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion }[shell](commands);
}

/** The command that prints the names of all services, for completion. */
const SERVICE_NAMES = "sluice get services -o name 2>/dev/null";

/** Flags of all commands, except flags without effect. */
const COMMON: readonly Flag[] = [
  option("help", boolean(), "Show the help.", "h"),
  ...FLAG_GROUPS.flatMap(({ flags }) => flags).filter(({ effective }) => effective),
];

/** The completion of a flag's value: nothing, one of these words, a file (or other text without completion), or a number. */
function valueOf({ field: { kind }, values, suggestions }: Flag): "nothing" | readonly string[] | "file" | "number" {
  return values ?? suggestions ?? (kind === "boolean" ? "nothing" : kind === "text" ? "file" : "number");
}

function wordsOf({ arguments: words = [] }: CommandSpec): readonly string[] {
  return words.flatMap(({ values }) => values ?? []);
}

/** Whether an argument is the name of a service, which `SERVICE_NAMES` lists. */
function takesService({ arguments: words = [] }: CommandSpec): boolean {
  return words.some(({ completes }) => completes === "service");
}

function spellings(flags: readonly Flag[]): string[] {
  return flags.flatMap(({ name, letter }) => letter === undefined ? [`--${name}`] : [`--${name}`, `-${letter}`]);
}

/** Returns a case per flag that takes a value. In the pattern, the command `*` stands for all. */
function valueCases(
  commands: readonly CommandSpec[],
  pattern: (command: string, spelling: string) => string,
  action: (value: ReturnType<typeof valueOf>, flag: Flag) => string,
): string {
  return [...commands, { name: "*", flags: COMMON }].flatMap(({ name, flags }) =>
    flags.filter((flag) => valueOf(flag) !== "nothing").map((flag) => {
      const patterns = spellings([flag]).map((spelling) => pattern(name, spelling)).join("|");
      return `    ${patterns}) ${action(valueOf(flag), flag)}; return ;;\n`;
    })
  ).join("");
}

/** Returns the completion script for bash; it needs no bash-completion package. */
function bashCompletion(commands: readonly CommandSpec[]): string {
  const names = commands.map(({ name }) => name).join(" ");
  const ofCommand = commands.filter((command) => wordsOf(command).length + command.flags.length > 0).map((command) =>
    `    ${command.name}) words='${wordsOf(command).join(" ")}' flags='${spellings(command.flags).join(" ")}'${
      takesService(command) ? " services=yes" : ""
    } ;;\n`
  );
  const values = valueCases(
    commands,
    (command, spelling) => command === "*" ? `*" ${spelling}"` : `"${command} ${spelling}"`,
    (value) => {
      if (value === "number") return "compopt +o default 2>/dev/null";
      return `COMPREPLY=($(compgen ${value === "file" ? "-f" : `-W '${[value].flat().join(" ")}'`} -- "$current"))`;
    },
  );
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
${ofCommand.join("")}    help) words='${names}' ;;
  esac
  case "$command $previous" in
${values}  esac
  if [[ $current == -* ]]; then
    words="$flags ${spellings(COMMON).join(" ")}"
  elif [[ COMP_CWORD -eq 1 ]]; then
    words='${names} help'
  elif [[ -n $services ]]; then
    words="$words $(${SERVICE_NAMES})"
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _sluice sluice
`;
}

function fishCompletion(commands: readonly CommandSpec[]): string {
  const lines = ["# Completion of sluice for fish: sluice completion fish | source", "complete -c sluice -f"];
  for (const command of commands) {
    const { name, summary, flags } = command;
    const words = wordsOf(command);
    lines.push(`complete -c sluice -n __fish_use_subcommand -a ${name} -d ${fishQuoted(summary)}`);
    const inCommand = `-n ${fishQuoted(`__fish_seen_subcommand_from ${name}`)}`;
    if (words.length > 0) lines.push(`complete -c sluice ${inCommand} -a ${fishQuoted(words.join(" "))}`);
    if (takesService(command)) lines.push(`complete -c sluice ${inCommand} -a ${fishQuoted(`(${SERVICE_NAMES})`)}`);
    for (const flag of flags) lines.push(`complete -c sluice ${inCommand} ${fishFlag(flag)}`);
  }
  const names = commands.map(({ name }) => name).join(" ");
  lines.push(`complete -c sluice -n __fish_use_subcommand -a help -d 'Show the help of a command.'`);
  lines.push(`complete -c sluice -n '__fish_seen_subcommand_from help' -a ${fishQuoted(names)}`);
  for (const flag of COMMON) lines.push(`complete -c sluice ${fishFlag(flag)}`);
  return `${lines.join("\n")}\n`;
}

function fishFlag(flag: Flag): string {
  const { name, letter, description } = flag;
  const value = valueOf(flag);
  const short = letter === undefined || letter === name ? "" : `-s ${letter} `;
  // fish requires -s for one-letter names.
  const long = name.length === 1 ? `-s ${name} ` : `-l ${name} `;
  const argument = typeof value === "string"
    ? { nothing: "", file: "-r -F ", number: "-x " }[value]
    : `-x -a ${fishQuoted(value.join(" "))} `;
  return `${short}${long}${argument}-d ${fishQuoted(description)}`;
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}

/** Returns the completion script for zsh, to be saved as _sluice in a folder of its fpath. */
function zshCompletion(commands: readonly CommandSpec[]): string {
  const ofCommand = commands.map((command) => {
    const services = takesService(command) ? ` services='${SERVICE_NAMES}'` : "";
    const candidates = wordsOf(command).map(zshQuoted).join(" ");
    return `    ${command.name}) own=(${zshFlags(command.flags)}) candidates=(${candidates})${services} ;;\n`;
  });
  const values = valueCases(
    commands,
    (command, spelling) => `${command}\\ ${spelling}`,
    (value, { name }) => {
      if (typeof value === "string") return value === "file" ? "_files" : `_message ${zshQuoted(name)}`;
      return `candidates=(${value.join(" ")}); _describe -t values value candidates`;
    },
  );
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
${ofCommand.join("")}  esac
  case "$command $previous" in
${values}  esac
  if [[ $current == -* ]]; then
    common=(${zshFlags(COMMON)})
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

function zshFlags(flags: readonly Flag[]): string {
  return flags.map(({ name, description }) => zshQuoted(`--${name}:${description}`)).join(" ");
}

function zshQuoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
