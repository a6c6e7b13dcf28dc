import assert from "node:assert/strict";
import { type Change, plugin } from "../../mutants/plugin.ts";

/** The texts that the mutations make of a module. */
function mutantsOf(text: string): readonly string[] {
  return Deno.lint.runPlugin(plugin, "module.ts", text).map(({ message }) => {
    const { start, end, text: other }: Change = JSON.parse(message);
    return text.slice(0, start) + other + text.slice(end);
  });
}

const CASES: Readonly<Record<string, readonly string[]>> = {
  "if (a < 1) b();": [
    "if (!(a < 1)) b();",
    "if (a <= 1) b();",
    "if (a >= 1) b();",
    "if (a < 2) b();",
    "if (a < 0) b();",
    "if (a < 1) {}",
  ],
  "if (a === b) c = 1;": ["if (!(a === b)) c = 1;", "if (a === b) {}", "if (a === b) c = 2;", "if (a === b) c = 0;"],
  "const a = b && !c;": ["const a = b || !c;", "const a = b;", "const a = !c;", "const a = b && c;"],
  "const a = b ?? 60_000;": ["const a = b;", "const a = 60_000;", "const a = b ?? 600000;"],
  "const a = [`µ ${b}`, true];": ["const a = [];", "const a = [``, true];", "const a = [`µ ${b}`, false];"],
  "const a = (b) => Math.min(b, c);": ["const a = (b) => undefined;", "const a = (b) => Math.max(b, c);"],
  "const a = { b, c: undefined };": ["const a = {  c: undefined };"],
  "const a = b.filter(c);": ["const a = b;"],
  "while (a) b++;": ["while (false) b++;", "while (a) {}", "while (a) b--;"],
  "function a() { return b; }": ["function a() { return undefined; }"],
};

for (const [text, mutants] of Object.entries(CASES)) {
  Deno.test(`the mutations of ${text}`, () => assert.deepEqual(mutantsOf(text).toSorted(), mutants.toSorted()));
}

Deno.test("messages, types and names of modules are not mutated", () => {
  const texts = [
    'import a from "b";',
    'type A = "b" | 1;',
    "const a = undefined;",
    'logger.warn("b", { a, retries: 5 });',
  ];
  for (const text of texts) assert.deepEqual(mutantsOf(text), [], text);
  assert.deepEqual(mutantsOf('throw new Error("no " + a);'), ["{}"]);
});
