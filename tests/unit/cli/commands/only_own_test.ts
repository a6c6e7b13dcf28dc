import assert from "node:assert/strict";
import { invoke } from "./invoke.ts";

Deno.test("--only-own is a kind of cleanup: it does nothing without --cleanup", async () => {
  assert.equal((await invoke(["run", "--only-own"])).status, 2);
});
