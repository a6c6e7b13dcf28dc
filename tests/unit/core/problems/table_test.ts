import assert from "node:assert/strict";
import { PROBLEM_CODES, problemKind } from "../../../../core/problems/mod.ts";

/** The rows of docs/problems.md: a table of the problems of a running proxy, and one of those of `sluice check`. */
function documentedRows(checkOnly: boolean): string {
  return PROBLEM_CODES.filter((code) => (problemKind(code).checkOnly === true) === checkOnly).map((code) => {
    const { severity, about, title, fix, event } = problemKind(code);
    const name = event === undefined ? "" : ` (Event \`${event}\`)`;
    return `| \`${code}\` | ${severity} | ${about} | ${title}${name} | ${fix} |\n`;
  }).join("");
}

Deno.test("docs/problems.md has a row for every code, in the words of the table", () => {
  const page = Deno.readTextFileSync(new URL("../../../../docs/problems.md", import.meta.url));
  for (const checkOnly of [false, true]) {
    const rows = documentedRows(checkOnly);
    assert.ok(page.includes(rows), `docs/problems.md lacks these rows:\n${rows}`);
  }
  const documented = [...page.matchAll(/^\| `([a-z-]+)` \|/gm)].map(([, code]) => code);
  assert.deepEqual(documented.toSorted(), PROBLEM_CODES.toSorted());
});

Deno.test("codes are in kebab-case, and titles and fixes are phrases without a full stop", () => {
  for (const code of PROBLEM_CODES) {
    const { title, fix } = problemKind(code);
    assert.match(code, /^[a-z]+(-[a-z]+)*$/);
    for (const phrase of [title, fix]) assert.match(phrase, /^[^\n|]+[^.\n|]$/);
  }
});
