import assert from "node:assert/strict";
import fc from "fast-check";
import { parse, stringify } from "yaml";
import { loadYaml, type TreeNode } from "../../../platform/mod.ts";
import { runs } from "../../property/runs.ts";

const { formatYaml, parseTree, plainData } = await loadYaml();

/** The plain data of the only document of a text that has no errors. */
function read(text: string): unknown {
  const { documents, errors } = parseTree(text, { uniqueKeys: true });
  assert.deepEqual(errors, []);
  assert.equal(documents.length, 1);
  return plainData(documents[0]!);
}

const errorsIn = (text: string) =>
  parseTree(text, { uniqueKeys: true }).errors.map(({ line, message }) => `${line}: ${message}`);

Deno.test({
  name: "YAML can be read and written without permission to read the environment",
  permissions: { env: false, read: "inherit" },
  fn() {
    assert.deepEqual(read("a: [1, b]"), { a: [1, "b"] });
    assert.equal(formatYaml({ a: "yes" }), 'a: "yes"\n');
  },
});

const data = fc.object({
  // The other library writes this key without quotes, which makes it a merge key.
  key: fc.string({ minLength: 1 }).filter((key) => key !== "<<"),
  values: [
    // The other library takes fewer texts for numbers than Kubernetes' parser: it writes 0E0_ without quotes.
    fc.string().filter((text) => !/^[-+.]?[\d_]/.test(text)),
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.constantFrom("yes", "0x1F", "1_000", "1e3", "~", "a: b", "x\ny\n"),
  ],
  maxDepth: 3,
});

Deno.test("what another library writes, in each of its styles, is read as it was meant", () => {
  fc.assert(
    fc.property(
      data,
      fc.constantFrom(
        {},
        { indentSeq: false, lineWidth: 0 },
        { lineWidth: 40 },
        { defaultStringType: "QUOTE_SINGLE" },
        { collectionStyle: "flow" },
      ),
      (value, style) => {
        assert.deepEqual(read(stringify(value, { version: "1.1", ...style } as object)), plain(value));
      },
    ),
    runs(200),
  );
});

Deno.test("YAML that is written reads the same with another library, as YAML 1.2 and 1.1", () => {
  fc.assert(
    fc.property(data, (value) => assert.deepEqual(plain(parse(formatYaml(value))), plain(value))),
    runs(200),
  );
  const ambiguous = [
    "yes",
    "off",
    "y",
    "N",
    "0x1F",
    "0o7",
    "017",
    "1_000",
    "1e3",
    "1:20",
    "2026-01-01",
    "~",
    "=",
    "<<",
    "NULL",
    ".inf",
  ];
  assert.deepEqual(parse(formatYaml(ambiguous), { version: "1.1" }), ambiguous);
  assert.deepEqual(read(formatYaml(ambiguous)), ambiguous);
});

Deno.test("YAML that is written has quotes where only Go reads a number, or a key would end the document", () => {
  const numbers = ["0X2", "+0x1f", "0B11", "0O7", "-0o7", "0o_7", "0_8", "1_e3", "1e3_", "-_1", "1._5", ".3e9_8"];
  assert.equal(formatYaml(numbers), numbers.map((text) => `- "${text}"\n`).join(""));
  assert.equal(formatYaml({ "0X2": 1, "---": 2, "--- a": 3, "...": 4 }), '"0X2": 1\n"---": 2\n"--- a": 3\n"...": 4\n');
  const plain = ["10.96.0.1", "1.2.3", "0xg", "0b", "_", "e1", "1e", "svc-1", "2 a"];
  assert.equal(formatYaml(plain), plain.map((text) => `- ${text}\n`).join(""));
  assert.equal(formatYaml([1, -2.5, true]), "- 1\n- -2.5\n- true\n");
});

Deno.test("JSON is read, as by JSON.parse", () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue({ noUnicodeString: false })),
      fc.constantFrom(0, 2, "\t"),
      (value, indent) => {
        const text = JSON.stringify(value, undefined, indent);
        fc.pre(!/\d{16}/.test(text));
        assert.deepEqual(plain(read(text)), JSON.parse(text));
      },
    ),
    runs(200),
  );
  assert.deepEqual(read(`{"${"k".repeat(2000)}":\n"x\\/y\\ud83d\\ude00"}`), { ["k".repeat(2000)]: "x/y😀" });
});

/** A copy without prototypes, and with 0 in place of -0. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

Deno.test("each value and key has its line", () => {
  const linesOf = (node: TreeNode): unknown =>
    node.kind === "scalar"
      ? node.line
      : node.kind === "list"
      ? [node.line, node.items.map(linesOf)]
      : { [node.line]: node.entries.map(({ key, line, value }) => [key, line, linesOf(value)]) };
  const text = "# comment\na:\n\n  - x\n  - y: |\n      text\n    z:\nb: {c: 1,\n  d: 2}\ne: &e\n  f: 3\n";
  const { documents: [root] } = parseTree(text, { line: 11, uniqueKeys: true });
  assert.deepEqual(linesOf(root!), {
    12: [
      ["a", 12, [14, [14, { 15: [["y", 15, 15], ["z", 17, 17]] }]]],
      ["b", 18, { 18: [["c", 18, 18], ["d", 19, 19]] }],
      ["e", 20, { 21: [["f", 21, 21]] }],
    ],
  });
});

Deno.test("a value has the line where it begins, of a block that of its key", () => {
  const lines = (text: string) => {
    const { documents: [root] } = parseTree(text, { line: 1, uniqueKeys: true });
    assert(root?.kind === "map");
    return root.entries.map(({ line, value }) => [line, value.line]);
  };
  assert.deepEqual(lines("a:\n  1\nb: |\n  text\n\n  more\nc: >\n  text\nd:\n  'x\n  y'\ne: 2\n"), [
    ...[[1, 2], [3, 3], [7, 7], [9, 10], [12, 12]],
  ]);
});

Deno.test("plain text has the value that Kubernetes' parser gives it", () => {
  const values: readonly (readonly [unknown, string])[] = [
    [true, "true True TRUE yes Yes YES on On ON y Y"],
    [false, "false False FALSE no No NO off Off OFF n N"],
    [null, "null Null NULL ~"],
    [493, "0755 +0755 0o755 0O755 0x1ed 0X1ED 0b111101101 4_93 493. 493.0 4.93e2 4930E-1 0_755"],
    [-8, "-010 -0x8 -8 -0b1000"],
    [9, "09 09.0"],
    [0.5, ".5 +.5 5e-1"],
    [0, "0 00 -0 0x0"],
  ];
  for (const [value, texts] of values) {
    for (const text of texts.split(" ")) assert.deepEqual(read(`a: ${text}`), { a: value }, text);
  }
  const strings =
    "tRue yEs nULL 0x 0xG 0o8 0b2 _1 1e 1e400 -1e400 1.2.3 10.0.0.1 10.0.0.0/8 1:20 2026-01-01 5s . + .inf -.inf .nan inf NaN 1a";
  for (const text of strings.split(" ")) assert.deepEqual(read(`a: ${text}`), { a: text });
});

Deno.test("brackets and quoted strings may continue at their parent's indentation", () => {
  assert.deepEqual(read('a: [\n"x",\n]\nb:\n  c: {\n    y: 1\n  }\n  d: "e\nf"\n'), {
    a: ["x"],
    b: { c: { y: 1 }, d: "e f" },
  });
  const lists = Array.from({ length: 40 }, (_, i) => `k${i}: [\n]\n`).join("");
  assert.equal(Object.keys(read(lists) as object).length, 40);
  assert.deepEqual(errorsIn("a: 'x\ry'\n"), ["2: not YAML: deficient indentation"]);
});

Deno.test("aliases and merge keys are resolved, and of a map's keys the last one counts", () => {
  assert.deepEqual(read("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a\nd: {y: 3, <<: *a}\n"), {
    a: { x: 1, y: 2 },
    b: { x: 1, y: 3 },
    c: { x: 1, y: 2 },
    d: { x: 1, y: 2 },
  });
  assert.deepEqual(read("a: &a {x: 1}\nb: &b {x: 2, z: 3}\nc: {<<: [*a, *b]}\nd: {'<<': 1}\n"), {
    a: { x: 1 },
    b: { x: 2, z: 3 },
    c: { x: 1, z: 3 },
    d: { "<<": 1 },
  });
});

Deno.test("a merge key takes any number of entries", () => {
  const entries = Array.from({ length: 200_000 }, (_, i) => `k${i}: 1`);
  const { b } = read(`a: &a {${entries.join()}}\nb: {<<: *a}\n`) as { b: object };
  assert.equal(Object.keys(b).length, entries.length);
});

Deno.test("errors have lines: syntax, keys, aliases", () => {
  assert.match(errorsIn("a: 1\nb: [1,\nc: 2\n").join(), /^[23]: not YAML: /);
  assert.deepEqual(errorsIn("a: 1\na: 2\n"), ['2: key "a" is repeated']);
  assert.deepEqual(errorsIn("? [a]\n: 1\n"), ["1: a list or a map cannot be a key"]);
  for (const value of ["1", "", "[1]", "[[]]"]) {
    assert.deepEqual(errorsIn(`a: 1\n<<: ${value}\n`), ["2: only a map or a list of maps can be merged"]);
  }
  assert.deepEqual(errorsIn("a: 1\nb: *c\n"), ["2: unknown alias *c"]);
  assert.deepEqual(errorsIn("a: &c 1\n---\nb: *c\n"), ["3: unknown alias *c"]);
  assert.deepEqual(errorsIn("a: &a\n  b: *a\n"), ["2: circular alias *a"]);
  const bomb = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"];
  for (let i = 1; i < 9; i++) bomb.push(`a${i}: &a${i} [${Array(10).fill(`*a${i - 1}`).join(", ")}]`);
  assert.match(errorsIn(bomb.join("\n"))[0]!, /^\d: alias \*a\d repeats too much$/);
});

Deno.test("tags decide about scalars, and an integer that a number cannot hold stays exact", () => {
  assert.deepEqual(read("a: !!str 12\nb: !!int '12'\nc: !own 12\nd: 12345678901234567890\n"), {
    a: "12",
    b: 12,
    c: "12",
    d: "12345678901234567890",
  });
});

Deno.test("text without a value has no document, and an empty document is a null", () => {
  assert.deepEqual(parseTree("# comment\n", { uniqueKeys: true }).documents, []);
  const { documents } = parseTree("---\n---\na: 1\n", { uniqueKeys: true });
  assert.deepEqual(documents.map(plainData), [null, { a: 1 }]);
  const ended = parseTree("a: 1\n---\n# nothing\n---\nb: 2\n---\n", { uniqueKeys: true });
  assert.deepEqual(ended.documents.map(plainData), [{ a: 1 }, { b: 2 }]);
});
