/** Kernel tools that fail on demand: programs of their names in a folder that comes first on the PATH. */
import type { ProxyMode } from "../../core/model/mod.ts";

/** The tools that are played. */
const TOOLS = [
  ...["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"],
  ...["nft", "conntrack"],
];
const IPVS_TOOLS = ["ipvsadm", "ipset", "ip"];

/** What is wrong with the tools; `share` is how many of a hundred runs it happens to. */
export type ToolFault =
  /** Nothing. */
  | { readonly how: "none" }
  /** They do nothing, say this on standard error and exit with 1. */
  | { readonly how: "fails"; readonly share: number; readonly says: string }
  /** They are killed before they have done anything, or after all of it. */
  | { readonly how: "killed-before" | "killed-after"; readonly share: number }
  /** They read their input and never end. */
  | { readonly how: "hangs"; readonly share: number }
  /** They do nothing, print what makes no sense, and exit with 0. */
  | { readonly how: "babbles"; readonly share: number }
  /** They refuse every input with a line that holds this text, as the real ones do: by the number of the line. */
  | { readonly how: "refuses"; readonly text: string }
  /** nft does not let itself be talked with, but takes what it reads from a file. */
  | { readonly how: "speechless" }
  /** nft lets itself be talked with, and dies over everything it is told then. */
  | { readonly how: "faints" };

/** The tools of a folder. */
export interface FaultyTools {
  readonly folder: string;
  /** From now on this is wrong, with the tools of these names (a pattern of the shell's `case`). */
  set(fault: ToolFault, tools?: string): Promise<void>;
  /** How many runs something was done to since the last `set`. */
  struck(): Promise<number>;
}

/** An nft that is talked with passes on line by line what it is told to the real one, and may be struck at each. */
const SCRIPT = `#!/bin/sh
folder=\${0%/*} tool=\${0##*/}
look() {
  how=none share=0 only='*' text= says=
  . "$folder/fault"
  eval "case \\$tool in $only) ;; *) how=none ;; esac"
}
real() { PATH=\${PATH#*:} exec "$tool" "$@"; }
strike() { echo "$tool" >> "$folder/struck"; }
struck() { [ $(($(od -An -N2 -tu2 /dev/urandom) % 100)) -lt "$share" ] && strike; }
complain() { echo "Error: $*" >&2; }
converse() {
  mkfifo "$folder/talk.$$"
  real -i < "$folder/talk.$$" &
  exec 3> "$folder/talk.$$"
  rm "$folder/talk.$$"
  while IFS= read -r line; do
    look
    case "$line" in "" | "end "*) how=none ;; esac
    case $how in
      speechless | faints) strike; kill -9 $! $$ ;;
      refuses) case "$line" in *"$text"*) strike; complain "Could not process rule: Invalid argument"; continue ;; esac ;;
      fails) if struck; then complain "$says"; continue; fi ;;
      babbles) if struck; then continue; fi ;;
      hangs) if struck; then exec sleep 100000; fi ;;
      killed-before) if struck; then kill -9 $! $$; fi ;;
      killed-after) if struck; then printf '%s\\n' "$line" >&3; sleep 0.05; kill -9 $! $$; fi ;;
    esac
    printf '%s\\n' "$line" >&3
  done
  exec 3>&-
  wait
  exit
}
look
if [ "$tool $*" = "nft -i" ]; then
  case $how in
    speechless) strike; complain "unknown option"; exit 1 ;;
    hangs | killed-after | refuses | faints | none) converse ;;
    *) if ! struck; then converse; fi ;;
  esac
elif [ "$how" = speechless ] || [ "$how" = faints ]; then real "$@"
fi
if [ "$how" = none ]; then real "$@"; fi
if [ "$how" = refuses ]; then
  case "$tool $*" in *-restore*|"nft -f"*) ;; *) real "$@" ;; esac
  input=$(mktemp -p "$folder"); cat > "$input"
  line=$(grep -nF -- "$text" "$input" | head -n 1 | cut -d: -f1)
  if [ -n "$line" ]; then
    strike; rm "$input"
    case $tool in
      nft) echo "/dev/stdin:$line:1-9: Error: Could not process rule: Invalid argument" >&2 ;;
      *) echo "$tool v1.8.9 (nf_tables): line $line: RULE_APPEND failed (Invalid argument): rule in chain X" >&2 ;;
    esac
    exit 1
  fi
  exec 0< "$input"; rm "$input"; real "$@"
fi
if [ "$tool $*" != "nft -i" ] && ! struck; then real "$@"; fi
case $how in
  fails) case " $* " in *" - "*|*" --noflush "*|*restore*) cat > /dev/null ;; esac; echo "$tool: $says" >&2; exit 1 ;;
  killed-before) kill -9 $$ ;;
  killed-after) (real "$@"); kill -9 $$ ;;
  hangs) exec sleep 100000 ;;
  babbles) echo "*nat
:\\001 garbage {{{ \\377
-A KUBE-SERVICES -j
table ip sluice {" ; exit 0 ;;
esac
`;

/**
 * Puts the tools into a folder; nothing is wrong with them yet.
 * @param mode what they are for; those of IPVS mode are played in it alone, since `ip` is also what the lab is made with
 */
export async function createFaultyTools(folder: string, mode?: ProxyMode): Promise<FaultyTools> {
  await Deno.mkdir(folder);
  for (const tool of mode === "ipvs" ? [...TOOLS, ...IPVS_TOOLS] : TOOLS) {
    await Deno.writeTextFile(`${folder}/${tool}`, SCRIPT, { mode: 0o755 });
  }
  const tools: FaultyTools = {
    folder,
    async set(fault, only = "*") {
      const quote = (text: string | number) => `'${String(text).replaceAll("'", `'\\''`)}'`;
      const lines = Object.entries({ only, ...fault }).map(([name, value]) => `${name}=${quote(value)}\n`);
      await Deno.writeTextFile(`${folder}/fault.new`, lines.join(""));
      await Deno.rename(`${folder}/fault.new`, `${folder}/fault`);
      await Deno.writeTextFile(`${folder}/struck`, "");
    },
    async struck() {
      return (await Deno.readTextFile(`${folder}/struck`)).split("\n").length - 1;
    },
  };
  await tools.set({ how: "none" });
  return tools;
}
