import assert from "node:assert/strict";
import { COMMANDS } from "../../../../cli/commands/mod.ts";
import { helpText, manPage } from "../../../../cli/manual/mod.ts";

Deno.test("the man page and the help list each flag of each command, with its letter if it has one", () => {
  const page = manPage(COMMANDS, {}, {});
  for (const command of COMMANDS) {
    const help = helpText(command, COMMANDS);
    for (const { name, letter } of command.flags) {
      const shown = new RegExp(`^  ${letter === undefined ? "" : `-${letter}, `}--${name}\\b`, "m");
      assert.match(help, shown);
    }
  }
  const tags = page.split("\n").filter((line) => line.startsWith(".B ")).map((line) => line.replaceAll("\\-", "-"));
  for (const { name, letter } of COMMANDS.flatMap(({ flags }) => flags)) {
    const tag = `.B ${letter === undefined ? "" : `-${letter}, `}--${name} `;
    assert.ok(tags.some((line) => line.startsWith(tag)), tag);
  }
});

Deno.test("the man page lists files, the environment and one line of usage for each command", () => {
  const page = manPage(COMMANDS, { "/etc/one": "the first file" }, { ONE: "the first variable" });
  const lines = page.split("\n");
  for (const part of [["/etc/one", "the first file"], ["ONE", "the first variable"]]) {
    const at = lines.indexOf(`.B ${part[0]}`);
    assert.deepEqual(lines.slice(at - 1, at + 2), [".TP", `.B ${part[0]}`, part[1]]);
  }
  const synopsis = lines.slice(lines.indexOf(".SH SYNOPSIS") + 1, lines.indexOf(".SH DESCRIPTION"));
  assert.equal(synopsis.filter((line) => line.startsWith(".B sluice ")).length, COMMANDS.length);
  assert.equal(synopsis.filter((line) => line === ".br").length, COMMANDS.length - 1);
});
