/** Wrappers of the kernel tools that fail on demand, in a folder that comes first on the PATH. */
import type { ProxyMode } from "../../core/model/mod.ts";

/** The wrapped tools. */
const TOOLS = [
  ...["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"],
  ...["nft", "conntrack"],
];
const IPVS_TOOLS = ["ipvsadm", "ipset", "ip"];

/** A fault; `share` is the percentage of runs that it hits. */
export type ToolFault =
  /** No fault. */
  | { readonly how: "none" }
  /** Does nothing, prints a message on standard error and exits with 1. */
  | { readonly how: "fails"; readonly share: number; readonly message: string }
  /** Killed before or after doing the work. */
  | { readonly how: "killed-before" | "killed-after"; readonly share: number }
  /** Never exits. */
  | { readonly how: "hangs"; readonly share: number }
  /** Does nothing, prints garbage and exits with 0. */
  | { readonly how: "garbage"; readonly share: number }
  /** Refuses input with a line that contains this text, and names the line number as the real tools do. */
  | { readonly how: "refuses"; readonly text: string }
  /** nft does not support interactive sessions (`nft -i`), only input from a file. */
  | { readonly how: "no-session" }
  /** An interactive session of nft dies at every statement. */
  | { readonly how: "session-dies" };

/** A folder of wrapped tools. */
export interface FaultyTools {
  readonly folder: string;
  /** Injects a fault into the tools whose names match the pattern (of the shell's `case`). */
  set(fault: ToolFault, tools?: string): Promise<void>;
  /** The number of runs that a fault has hit since the last `set`. */
  faultyRuns(): Promise<number>;
}

/** An interactive nft forwards each line to the real one; the fault may hit at every line. */
const SCRIPT = `#!/bin/sh
folder=\${0%/*} tool=\${0##*/}
read_fault() {
  how=none share=0 only='*' text= message=
  . "$folder/fault"
  eval "case \\$tool in $only) ;; *) how=none ;; esac"
}
real() { PATH=\${PATH#*:} exec "$tool" "$@"; }
count_fault() { echo "$tool" >> "$folder/struck"; }
# The draw of the number of draws so far, mixed with the seed.
is_hit() {
  echo >> "$folder/drawn"
  draw=$(wc -l < "$folder/drawn")
  draw=$(((seed + draw) * 1540483477 % 4294967296))
  draw=$(((draw ^ draw >> 15) * 1540483477 % 4294967296))
  [ $(((draw ^ draw >> 13) % 100)) -lt "$share" ] && count_fault
}
print_error() { echo "Error: $*" >&2; }
session() {
  mkfifo "$folder/talk.$$"
  real -i < "$folder/talk.$$" &
  exec 3> "$folder/talk.$$"
  rm "$folder/talk.$$"
  while IFS= read -r line; do
    read_fault
    case "$line" in "" | "end "*) how=none ;; esac
    case $how in
      no-session | session-dies) count_fault; kill -9 $! $$ ;;
      refuses) case "$line" in *"$text"*) count_fault; print_error "Could not process rule: Invalid argument"; continue ;; esac ;;
      fails) if is_hit; then print_error "$message"; continue; fi ;;
      garbage) if is_hit; then continue; fi ;;
      hangs) if is_hit; then exec sleep 100000; fi ;;
      killed-before) if is_hit; then kill -9 $! $$; fi ;;
      killed-after) if is_hit; then printf '%s\\n' "$line" >&3; sleep 0.05; kill -9 $! $$; fi ;;
    esac
    printf '%s\\n' "$line" >&3
  done
  exec 3>&-
  wait
  exit
}
read_fault
if [ "$tool $*" = "nft -i" ]; then
  case $how in
    no-session) count_fault; print_error "unknown option"; exit 1 ;;
    hangs | killed-after | refuses | session-dies | none) session ;;
    *) if ! is_hit; then session; fi ;;
  esac
elif [ "$how" = no-session ] || [ "$how" = session-dies ]; then real "$@"
fi
if [ "$how" = none ]; then real "$@"; fi
if [ "$how" = refuses ]; then
  case "$tool $*" in *-restore*|"nft -f"*) ;; *) real "$@" ;; esac
  input=$(mktemp -p "$folder"); cat > "$input"
  line=$(grep -nF -- "$text" "$input" | head -n 1 | cut -d: -f1)
  if [ -n "$line" ]; then
    count_fault; rm "$input"
    case $tool in
      nft) echo "/dev/stdin:$line:1-9: Error: Could not process rule: Invalid argument" >&2 ;;
      *) echo "$tool v1.8.9 (nf_tables): line $line: RULE_APPEND failed (Invalid argument): rule in chain X" >&2 ;;
    esac
    exit 1
  fi
  exec 0< "$input"; rm "$input"; real "$@"
fi
if [ "$tool $*" != "nft -i" ] && ! is_hit; then real "$@"; fi
case $how in
  fails) case " $* " in *" - "*|*" --noflush "*|*restore*) cat > /dev/null ;; esac; echo "$tool: $message" >&2; exit 1 ;;
  killed-before) kill -9 $$ ;;
  killed-after) (real "$@"); kill -9 $$ ;;
  hangs) exec sleep 100000 ;;
  garbage) echo "*nat
:\\001 garbage {{{ \\377
-A KUBE-SERVICES -j
table ip sluice {" ; exit 0 ;;
esac
`;

/**
 * Creates the folder of wrapped tools, without a fault yet.
 * @param random decides which runs a fault hits
 * @param mode the proxy mode; the tools of IPVS mode are wrapped in that mode only, because the lab itself uses `ip`
 */
export async function createFaultyTools(
  folder: string,
  random: () => number,
  mode?: ProxyMode,
): Promise<FaultyTools> {
  await Deno.mkdir(folder);
  for (const tool of mode === "ipvs" ? [...TOOLS, ...IPVS_TOOLS] : TOOLS) {
    await Deno.writeTextFile(`${folder}/${tool}`, SCRIPT, { mode: 0o755 });
  }
  const tools: FaultyTools = {
    folder,
    async set(fault, only = "*") {
      const seed = Math.floor(random() * 2 ** 31);
      const quote = (text: string | number) => `'${String(text).replaceAll("'", `'\\''`)}'`;
      const lines = Object.entries({ seed, only, ...fault }).map(([name, value]) => `${name}=${quote(value)}\n`);
      await Deno.writeTextFile(`${folder}/fault.new`, lines.join(""));
      await Deno.rename(`${folder}/fault.new`, `${folder}/fault`);
      for (const counter of ["struck", "drawn"]) await Deno.writeTextFile(`${folder}/${counter}`, "");
    },
    async faultyRuns() {
      return (await Deno.readTextFile(`${folder}/struck`)).split("\n").length - 1;
    },
  };
  await tools.set({ how: "none" });
  return tools;
}
