import assert from "node:assert/strict";
import { drawingOf, readProduct, withDrawing } from "../../../build/drawing.ts";

Deno.test("the drawing shows the transitive reduction of the imports between rooms", () => {
  const tree = new Map([
    ["main.ts", 'import { a } from "./cli/text/mod.ts";\nimport { b } from "./core/mod.ts";\n'],
    ["cli/text/mod.ts", 'import { b } from "../../core/mod.ts";\nconst { c } = await import("../manual/mod.ts");\n'],
    ["cli/manual/mod.ts", 'import "yaml";\n'],
    ["core/mod.ts", ""],
  ]);
  assert.equal(
    drawingOf(tree),
    `\`\`\`mermaid
flowchart TD
  main["<b>main.ts</b> 0.0k"]
  cli["<b>cli</b> 0.0k<br>manual, text"]
  core["<b>core</b> 0.0k"]
  main --> cli
  cli --> core
\`\`\`
`,
  );
});

Deno.test("a page without the marker comments is an error", () => {
  assert.throws(() => withDrawing("# Architecture\n", new Map()), /no marker comments/);
});

Deno.test("the drawing in ARCHITECTURE.md is up to date", () => {
  // Line counts change with every commit; they may be stale.
  const withoutCounts = (page: string) => page.replace(/ \d+\.\dk/g, "");
  const page = Deno.readTextFileSync(new URL("../../../ARCHITECTURE.md", import.meta.url));
  assert.equal(withoutCounts(page), withoutCounts(withDrawing(page, readProduct())), "run `deno task drawing`");
});
