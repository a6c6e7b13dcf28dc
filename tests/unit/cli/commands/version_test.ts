import assert from "node:assert/strict";
import { jsonText } from "../../../../cli/commands/command.ts";
import { invoke } from "./invoke.ts";

Deno.test("version prints versions as text and as JSON", async () => {
  const { stdout } = await invoke(["version", "-o", "json"]);
  const build = JSON.parse(stdout);
  assert.equal(build.commit, "source");
  assert.equal(build.deno, Deno.version.deno);
  const { imports } = JSON.parse(await Deno.readTextFile(new URL("../../../../deno.json", import.meta.url)));
  for (const [name, version] of Object.entries(build.dependencies)) {
    assert(Object.values<string>(imports).some((text) => text.startsWith(`npm:${name}@${version}`)), name);
  }
  assert.equal(build.dependencies.yaml, "2.9.1");
  const text = (await invoke(["version"])).stdout;
  for (const part of [`Sluice ${build.version} `, `commit source\n`, `Deno ${build.deno}`, "yaml "]) {
    assert(text.includes(part), part);
  }
});

Deno.test("JSON escapes what a terminal would obey, and stays the same data", () => {
  const data = { detail: "a\u009b31m \u202e \u{e0001} \t ä" };
  const text = jsonText(data, 0);
  assert.match(text, /^\{"detail":"a\\u009b31m \\u202e \\udb40\\udc01 \\t ä"\}\n$/);
  assert.deepEqual(JSON.parse(text), data);
});
