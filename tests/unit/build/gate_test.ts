/** The parts of `.ci/nightly`, in its table, its functions and CONTRIBUTING.md. */
import assert from "node:assert/strict";
import { readTree } from "../../../build/imports.ts";

const ROOT = new URL("../../../", import.meta.url);
const read = (path: string) => Deno.readTextFileSync(new URL(path, ROOT));
const script = read(".ci/nightly");
const parts = /<<'TABLE'\n(.*?)\nTABLE\n/s.exec(script)![1]!.split("\n").map((line) => {
  const [, name, pattern, content] = /^(\S+) +(\S+) +(.+)$/.exec(line)!;
  return { name: name!, pattern: new RegExp(pattern!), content: content! };
});

Deno.test("each part of the nightly run has a function and a row in CONTRIBUTING.md", () => {
  const functions = Array.from(script.matchAll(/^part_(\S+)\(\)/gm), ([, name]) => name);
  assert.deepEqual(functions.sort(), parts.map(({ name }) => name).sort());
  const rows = Array.from(read("CONTRIBUTING.md").matchAll(/^\| `([a-z0-9-]+)` +\| (.+?) +\|$/gm), ([, ...row]) => row);
  for (const { name, content } of parts) {
    assert.ok(
      rows.some(([part, text]) => part === name && text === content),
      `CONTRIBUTING.md lacks ${name}: ${content}`,
    );
  }
});

Deno.test("each part of the nightly run belongs to files that exist", () => {
  const folders = [...Deno.readDirSync(ROOT)].filter(({ name, isDirectory }) =>
    isDirectory && !name.startsWith(".") && name !== "dist"
  );
  const paths = [...readTree(folders.map(({ name }) => name)).keys()];
  for (const { name, pattern } of parts) assert.ok(paths.some((path) => pattern.test(path)), name);
});
