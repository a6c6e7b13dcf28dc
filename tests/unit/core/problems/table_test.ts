import assert from "node:assert/strict";
import { withProblems } from "../../../../build/problems.ts";
import { isOfSource, problemCodes, problemKind } from "../../../../core/problems/mod.ts";

Deno.test("docs/problems.md has a section for every code, in the words of the table", () => {
  const page = Deno.readTextFileSync(new URL("../../../../docs/problems.md", import.meta.url));
  assert.equal(page, withProblems(page), "run `deno task problems`");
  assert.deepEqual([...page.matchAll(/^### `(.*)`$/gm)].map(([, code]) => code).sort(), [...problemCodes()].sort());
});

Deno.test("a title holds whether or not the source was ever read", () => {
  for (const code of problemCodes().filter(isOfSource)) {
    assert.doesNotMatch(problemKind(code).title, /last state/, code);
  }
});

Deno.test("codes are in kebab-case, and titles and fixes are phrases without a full stop", () => {
  for (const code of problemCodes()) {
    const { title, fix } = problemKind(code);
    assert.match(code, /^[a-z]+(-[a-z]+)*$/);
    for (const phrase of [title, fix]) assert.match(phrase, /^[^\n|]+[^.\n|]$/);
  }
});
