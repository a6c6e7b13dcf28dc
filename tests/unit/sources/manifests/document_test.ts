import assert from "node:assert/strict";
import { DocumentError, linesOfItems, parseDocument, splitDocuments } from "../../../../sources/manifests/document.ts";

Deno.test("documents are split at their dashes, each with its line", () => {
  const text = "# first\na: 1\n---\nb: |\n  --- not here\n  ---\n--- # third\nc: 3\n----\n";
  assert.deepEqual(splitDocuments(text), [
    { text: "# first\na: 1\n", line: 1 },
    { text: "---\nb: |\n  --- not here\n  ---\n", line: 3 },
    { text: "--- # third\nc: 3\n----\n", line: 7 },
  ]);
  assert.deepEqual(splitDocuments("---\r\na: 1\r\n---"), [
    { text: "---\r\na: 1\r\n", line: 1 },
    { text: "---", line: 3 },
  ]);
});

Deno.test("a file with directives is not split", async () => {
  const text = "%YAML 1.2\n---\na: 1\n---\nb: 2\n";
  assert.equal(splitDocuments(text).length, 1);
  assert.deepEqual(await parseDocument(text), [{ value: { a: 1 }, line: 3 }, { value: { b: 2 }, line: 5 }]);
});

Deno.test("comments alone are not a document", async () => {
  for (const text of ["", "---\n", "# nothing\n", "---\n# nothing\n---"]) {
    assert.deepEqual(await parseDocument(text), []);
  }
});

Deno.test("merge keys and anchors are resolved", async () => {
  const [document] = await parseDocument("base: &base {a: 1}\nmore: {<<: *base, b: 2}\n");
  assert.deepEqual(document?.value, { base: { a: 1 }, more: { a: 1, b: 2 } });
});

const mistakes: Record<string, { text: string; line: number }> = {
  "an invalid mapping": { text: "a: 1\nb: 2: 3\n", line: 2 },
  "half a JSON object": { text: '{\n  "kind": "Service",\n  "spec": {\n', line: 4 },
  "a tab for a space": { text: "a:\n\t- b\n", line: 2 },
  "a key twice": { text: "a: 1\nb: 2\na: 3\n", line: 3 },
  "an undefined anchor": { text: "# a\na: 1\nb: *c\n", line: 3 },
};

for (const [name, { text, line }] of Object.entries(mistakes)) {
  Deno.test(`${name} is reported with its line`, async () => {
    await assert.rejects(() => parseDocument(text), (error) => error instanceof DocumentError && error.line === line);
  });
}

Deno.test("exponential expansion of anchors is refused", async () => {
  const bomb = ["a: &a [1,1,1,1,1,1,1,1,1,1]"];
  for (const [name, of] of ["ba", "cb", "dc", "ed", "fe"]) bomb.push(`${name}: &${name} [${`*${of},`.repeat(10)}]`);
  await assert.rejects(() => parseDocument(bomb.join("\n")), DocumentError);
});

Deno.test("JSON below three dashes is read as JSON, whose keys may repeat", async () => {
  assert.deepEqual(await parseDocument('---\n\n{"a": 1, "a": 2}'), [{ value: { a: 2 }, line: 3 }]);
});

Deno.test("the lines of list items are found in YAML and JSON", async () => {
  assert.deepEqual(await linesOfItems("---\nkind: List\nitems:\n- kind: Node\n- kind: Service\n"), [4, 5]);
  assert.deepEqual(await linesOfItems('{"kind": "List",\n"items": [\n{"kind": "Node"},\n\n{"kind": "Node"}]}'), [3, 5]);
});
