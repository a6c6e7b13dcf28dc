import assert from "node:assert/strict";
import { protoFiles } from "../../../build/proto.ts";

Deno.test("docs/proto has the messages of the codec", () => {
  for (const [name, text] of Object.entries(protoFiles())) {
    const written = Deno.readTextFileSync(new URL(`../../../docs/proto/${name}`, import.meta.url));
    assert.equal(written, text, "run `deno task proto`");
  }
});
