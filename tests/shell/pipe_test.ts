import assert from "node:assert/strict";
import { readTextWithin, readTextWithinSync } from "../../platform/files.ts";

Deno.test("a pipe in the place of a file is an error, not a wait for whoever writes into it", async () => {
  const folder = await Deno.makeTempDir(), path = `${folder}/pipe`;
  try {
    await new Deno.Command("mkfifo", { args: [path] }).output();
    await assert.rejects(readTextWithin(path, 12), /a pipe, not a file/);
    assert.throws(() => readTextWithinSync(path, 12), /a pipe, not a file/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
