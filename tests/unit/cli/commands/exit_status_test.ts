/** Exit statuses: one table in the code, which help, man page and documentation repeat. */
import assert from "node:assert/strict";
import { COMMANDS } from "../../../../cli/commands/mod.ts";
import { helpText, manPage } from "../../../../cli/manual/mod.ts";
import { exitStatusesOf } from "../../../../config/mod.ts";

const OPERATE = await Deno.readTextFile(new URL("../../../../docs/operate.md", import.meta.url));

Deno.test("the help of each command lists its exit statuses", () => {
  const man = manPage(COMMANDS, {}, {});
  for (const command of COMMANDS) {
    const help = helpText(command, COMMANDS);
    for (const [status, meaning] of Object.entries(exitStatusesOf(command))) {
      assert.ok(help.includes(`  ${status}  ${meaning}\n`), `${command.name} ${status}`);
      assert.ok(man.includes(`.B ${status}\n${meaning.replaceAll("-", "\\-")}`), `man: ${command.name} ${status}`);
    }
  }
});

Deno.test("the documentation lists the exit statuses of what shows whether all is in effect", () => {
  for (const { name, exitStatuses = {} } of COMMANDS.filter(({ name }) => ["status", "cluster"].includes(name))) {
    for (const [status, meaning] of Object.entries(exitStatuses)) {
      assert.ok(OPERATE.includes(`| ${status} | ${meaning} |`), `${name} ${status}`);
    }
  }
});
