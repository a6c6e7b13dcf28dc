import assert from "node:assert/strict";
import { readTextWithin, readTextWithinSync } from "../../../platform/files.ts";

Deno.test("a text file is read up to its limit; a larger one and a device are errors", async () => {
  const path = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(path, "twelve bytes");
    assert.equal(await readTextWithin(path, 12), "twelve bytes");
    assert.equal(readTextWithinSync(path, 12), "twelve bytes");
    await Deno.truncate(path, 3 * 2 ** 20 + 1);
    const tooLarge = /it has 3145729 bytes, more than the limit of 3 MiB/;
    await assert.rejects(readTextWithin(path, 3 * 2 ** 20), tooLarge);
    assert.throws(() => readTextWithinSync(path, 3 * 2 ** 20), tooLarge);
    await assert.rejects(readTextWithin("/dev/zero", 12), /device/);
    await assert.rejects(readTextWithin(`${path}-missing`, 12), Deno.errors.NotFound);
  } finally {
    await Deno.remove(path);
  }
});
