import { type CommandWords, type FlagWords, SERVICE_NAMES, type Vocabulary } from "./vocabulary.ts";

/** Returns the completion script for zsh, to be saved as _sluice in a folder of its fpath. */
export function zshCompletion({ commands, common }: Vocabulary): string {
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
${[...commands.flatMap(({ name, flags }) => valueCases(flags, name)), ...valueCases(common, "*")].join("")}  esac
  if [[ $current == -* ]]; then
    common=(${described(common).join(" ")})
    _describe -t flags flag own -- common
  elif (( CURRENT == 2 )) || [[ $command == help ]]; then
    candidates=(${commands.map(({ name, summary }) => quoted(`${name}:${summary}`)).join(" ")})
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
  return `    ${name}) own=(${described(flags).join(" ")}) candidates=(${words.map(quoted).join(" ")})${names} ;;\n`;
}

function valueCases(flags: readonly FlagWords[], command: string): string[] {
  const before = command === "*" ? "*" : command;
  return flags.flatMap(({ name, letter, following }) => {
    const spellings = [`--${name}`, ...(letter === undefined ? [] : [`-${letter}`])];
    const patterns = spellings.map((spelling) => `${before}\\ ${spelling}`).join("|");
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
        return [`    ${patterns}) _message ${quoted(name)}; return ;;\n`];
    }
  });
}

function described(flags: readonly FlagWords[]): string[] {
  return flags.map(({ name, description }) => quoted(`--${name}:${description}`));
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
