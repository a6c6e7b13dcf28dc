import { type FlagWords, SERVICE_NAMES, type Vocabulary } from "./vocabulary.ts";

/** Returns the completion script for bash; it needs no bash-completion package. */
export function bashCompletion({ commands, common }: Vocabulary): string {
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
