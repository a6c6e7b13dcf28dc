import assert from "node:assert/strict";
import { manualText } from "../../cli/commands/about.ts";
import { COMMANDS } from "../../cli/commands/mod.ts";
import { FLAG_GROUPS } from "../../config/mod.ts";
import { isInstalled, run } from "./shell.ts";

/** Bold text as overstrike: a character, a backspace and the character again. */
const OVERSTRUCK = new RegExp(`.${String.fromCharCode(8)}`, "g");

Deno.test({
  name: "the man page renders without warnings and contains every command, flag and example",
  ignore: !isInstalled("groff"),
  async fn() {
    const page = await run("groff", ["-ww", "-man", "-Tutf8", "-P-c", "-rLL=2000n"], await manualText(COMMANDS));
    const plain = page.replace(OVERSTRUCK, "").replace(/ +/g, " ");
    for (const { name, summary, examples, flags } of COMMANDS) {
      assert(plain.includes(`\n ${name}\n ${summary}\n`), name);
      for (const line of Object.keys(examples)) assert(plain.includes(`\n ${line}\n`), line);
      for (const flag of flags) assert(plain.includes(`--${flag.name} `), flag.name);
    }
    for (const { flags } of FLAG_GROUPS) {
      for (const { name, description, effective } of flags) {
        assert(plain.includes(`--${name}`), name);
        if (effective) assert(plain.includes(description), description);
      }
    }
  },
});
