import assert from "node:assert/strict";
import { COMMANDS } from "../../cli/commands/mod.ts";
import { completionScript, type Shell } from "../../cli/manual/completion.ts";
import { isInstalled, run } from "./shell.ts";

/** The sorted candidates of a shell for the last of these words. */
type Complete = (words: readonly string[]) => Promise<readonly string[]>;

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
const sorted = (text: string) => [...new Set(text.split("\n").filter((line) => line !== ""))].sort();

/** Replaces an installed program, whose proxy would complete its services. */
const NO_PROGRAM = { posix: "sluice() { false; }\n", fish: "function sluice; false; end\n" };

/** Runs the script in bash, which splits words at `=` (COMP_WORDBREAKS). */
const inBash: Complete = async (words) => {
  const split = words.flatMap((word) =>
    word.split(/(=)/).filter((part, i, all) => part !== "" || i === all.length - 1 && all.length === 1)
  );
  const script = `${NO_PROGRAM.posix}${completionScript("bash", COMMANDS)}
    COMP_WORDS=(${split.map(quoted).join(" ")}) COMP_CWORD=${split.length - 1}
    _sluice
    printf '%s\\n' "\${COMPREPLY[@]}"`;
  return sorted(await run("bash", ["--norc", "-s"], script));
};

/** Runs the script in zsh, with zsh's completion functions replaced by ones that print the matching candidates. */
const inZsh: Complete = async (words) => {
  const script = `${NO_PROGRAM.posix}
    fit() { for one in "$@"; do one=\${one%%:*}; [[ $one == $current* ]] && print -r -- "$one"; done }
    _describe() { shift 3; while (( $# )); do [[ $1 != -- ]] && fit "\${(@P)1}"; shift; done }
    _files() { print files }
    _message() { }
    compset() { }
    words=(${words.map(quoted).join(" ")}) CURRENT=${words.length}
    ${completionScript("zsh", COMMANDS)}`;
  return sorted(await run("zsh", ["-f", "-s"], script));
};

/** Runs fish's own completion; it prints a flag's value together with the flag. */
const inFish: Complete = async (words) => {
  const script = `${NO_PROGRAM.fish}${completionScript("fish", COMMANDS)}
    complete -C ${quoted(words.join(" "))}`;
  const lines = sorted(await run("fish", ["--no-config"], script));
  return lines.map((line) => line.split("\t")[0]!.replace(/^--[^=]+=/, "")).sort();
};

const COMPLETE: Readonly<Record<Shell, Complete>> = { bash: inBash, zsh: inZsh, fish: inFish };

for (const [shell, complete] of Object.entries(COMPLETE)) {
  Deno.test({
    name: `${shell} completes commands, flags and their values`,
    ignore: !isInstalled(shell),
    async fn() {
      const names = COMMANDS.map(({ name }) => name);
      assert.deepEqual(await complete(["sluice", "ex"]), ["explain", "export"]);
      for (const name of names) assert((await complete(["sluice", ""])).includes(name), name);
      assert.deepEqual(await complete(["sluice", "get", ""]), ["endpoints", "services"]);
      assert.deepEqual(await complete(["sluice", "get", "services", "-o", ""]), ["json", "name", "table", "yaml"]);
      assert.deepEqual(await complete(["sluice", "get", "services", "--output", "y"]), ["yaml"]);
      assert.deepEqual(await complete(["sluice", "explain", "10.0.0.1:80", "--output", ""]), ["json", "text"]);
      assert.deepEqual(await complete(["sluice", "--proxy-mode", "nf"]), ["nftables"]);
      assert.deepEqual(await complete(["sluice", "check", "--proxy-mode=ip"]), ["iptables", "ipvs"]);
      assert.deepEqual(await complete(["sluice", "help", "vers"]), ["version"]);
      assert.deepEqual(await complete(["sluice", "install", "--dry"]), ["--dry-run"]);
      assert.deepEqual(await complete(["sluice", "get", "--dry"]), [], "a flag of another command");
      assert((await complete(["sluice", "--clu"])).includes("--cluster-cidr"));
      assert.deepEqual(await complete(["sluice", "--vmod"]), [], "a flag that has no effect");
    },
  });
}

Deno.test({
  name: "bash completes file paths for flags that take one",
  ignore: !isInstalled("bash"),
  async fn() {
    const folder = await Deno.makeTempDir();
    try {
      await Deno.writeTextFile(`${folder}/config.yaml`, "");
      assert.deepEqual(await inBash(["sluice", "--config", `${folder}/con`]), [`${folder}/config.yaml`]);
      assert.deepEqual(await inBash(["sluice", `--config=${folder}/con`]), [`${folder}/config.yaml`]);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
