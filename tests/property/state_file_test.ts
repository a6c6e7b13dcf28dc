/** Reading a state file item by item gives the same result as a full YAML parser. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { stringify } from "yaml";
import { type Placed, readState, StateError, type StateItem, StateSyntaxError } from "../../sources/state/document.ts";
import { parseYaml, readStateFile } from "../../sources/state/reading.ts";
import { runs } from "./runs.ts";

const RUNS = 60;
const atOnce = () => Promise.resolve();

/** The result of reading: items, or the line of the first error. */
async function outcome(read: () => unknown): Promise<unknown> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof StateError)) throw error;
    // Which syntax error a parser finds first, and where, can depend on the text after the item.
    if (error instanceof StateSyntaxError) return "no YAML";
    return { line: error.line, message: error.message };
  }
}

async function bothWays(text: string): Promise<readonly [byItem: unknown, asAWhole: unknown]> {
  return [
    await outcome(async () => {
      const items = await readStateFile(text, () => undefined, atOnce);
      return (await Promise.all(items.map(({ item }) => item()))).map(located);
    }),
    await outcome(async () => readState(await parseYaml(text, 1)).map(located)),
  ];
}

/** An item as it is compared: an empty one (`- `) has no text in a whole file, so that its line is not known exactly. */
function located(item: StateItem): StateItem {
  const at = <T extends Placed<object>>(placed: T): T =>
    Object.keys(placed.message).length > 0 ? placed : { ...placed, line: 0 };
  return item.section === "nodes" ? at(item) : { ...at(item), endpoints: item.endpoints.map(at) };
}

const WORDS = [
  "web",
  "10.96.0.10",
  "fd00:10:96::a",
  "::1",
  "topology.kubernetes.io/zone",
  "a longer text of words",
  "it's",
  'say "x"',
  "null",
  "True",
  "~",
  "007",
  "0x1f",
  "1e3",
  "1_000",
  "8080",
  "-1",
  ".5",
  "a: b",
  "a #b",
  "#a",
  "- a",
  "&a",
  "*a",
  "!a",
  "two\nlines",
  "services:\n- service:",
  "line\u2028end",
  "ünï",
  "\ud800",
  "tab\there",
  " led",
  "trailed ",
  "",
  "---",
  "%YAML",
  "<<",
  "__proto__",
  "x".repeat(1100),
] as const;

const word = fc.oneof(
  fc.constantFrom(...WORDS),
  fc.string({ maxLength: 12 }),
  fc.stringMatching(/^[a-z0-9.:/ -]{0,9}$/),
);
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 4 });
const ipSet = fc.record({ v4: fc.array(word, { maxLength: 2 }), v6: fc.array(word, { maxLength: 2 }) });
const labels = fc.dictionary(word, word, { maxKeys: 3 });
const number = fc.oneof(fc.integer(), fc.maxSafeInteger(), fc.double({ noNaN: true }));
const service = fc.record({
  namespace: maybe(word),
  name: word,
  labels: maybe(labels),
  ips: maybe(fc.record({ clusterips: ipSet, loadbalancerips: fc.option(ipSet), headless: fc.boolean() })),
  ports: maybe(fc.array(fc.record({ name: word, port: number, protocol: fc.nat(3) }), { maxLength: 3 })),
  mapip: maybe(fc.boolean()),
});
const endpoint = fc.record({
  podname: maybe(word),
  endpoint: fc.record({ ips: ipSet, scopes: fc.constant(null) }),
  conditions: maybe(fc.record({ ready: fc.boolean() })),
});
const state = fc.record({
  nodes: maybe(fc.array(fc.record({ name: word, labels: maybe(labels) }), { maxLength: 3 })),
  services: maybe(fc.array(
    fc.record({ service, endpoints: maybe(fc.array(endpoint, { maxLength: 3 })) }),
    { maxLength: 4 },
  )),
});

/** The state as written by Go's YAML packages, Sluice and people. */
const written = fc.tuple(
  state,
  fc.constantFrom<(state: object) => string>(
    (state) => stringify(state, { indentSeq: false, lineWidth: 0 }),
    (state) => stringify(state, { indent: 4, lineWidth: 0 }),
    (state) => stringify(state, { lineWidth: 40 }),
    (state) => stringify(state, { indentSeq: false, defaultStringType: "QUOTE_DOUBLE" }),
    (state) => stringify(state, { indentSeq: false, blockQuote: false }).replaceAll("\n", "\r\n"),
    (state) => JSON.stringify(state),
    (state) =>
      Object.entries(JSON.parse(JSON.stringify(state)) as Record<string, unknown[]>).map(([name, items]) =>
        `${name}:\n${items.map((item) => `- ${JSON.stringify(item)}\n`).join("")}`
      ).join(""),
  ),
).map(([state, write]) => write(state));

Deno.test("a state file reads the same item by item and as a whole", async () => {
  await fc.assert(
    fc.asyncProperty(written, async (text) => {
      const [byItem, asAWhole] = await bothWays(text);
      assert.deepEqual(byItem, asAWhole);
    }),
    runs(RUNS),
  );
});

/** A scalar in a file, valid or not. */
const raw = fc.oneof(
  word,
  fc.constantFrom(
    "True",
    "NULL",
    "Null",
    "tRUE",
    "FALSE",
    ".inf",
    "-.INF",
    "0o17",
    "0b1",
    "+1",
    "1.",
    "1.5e3",
    "-0",
    "1:2",
  ),
  fc.constantFrom(
    '"a"',
    "'a'",
    "''",
    "'it''s'",
    '"a\\n"',
    '"a" b',
    "[]",
    "{}",
    "[a]",
    "{a: b}",
    '{"a":"b"}',
    '["a",1]',
  ),
  fc.stringMatching(/^[-+.0-9xeo_:]{1,6}$/),
  fc.stringMatching(/^[a-z:'"#&*!|>%@`?, [\]{}~=-]{1,6}$/),
);

Deno.test("every scalar and key reads the same item by item and as a whole", async () => {
  await fc.assert(
    fc.asyncProperty(raw, raw, raw, async (name, key, value) => {
      const text =
        `services:\n- service:\n    name: ${name}\n    labels:\n      ${key}: ${value}\n    ports:\n    - port: ${value}\n`;
      const [byItem, asAWhole] = await bothWays(text);
      assert.deepEqual(byItem, asAWhole);
    }),
    runs(5 * RUNS),
  );
});

/** Lines with a misleading meaning, or that end the block around them. */
const HOSTILE = [
  "",
  "# comment",
  "#",
  "- ",
  "-",
  "- service:",
  "services:",
  "nodes: []",
  "nodes:",
  "---",
  "...",
  "%YAML 1.1",
  "name: web",
  "name:  web",
  "name: web # comment",
  "name: &a web",
  "name: *a",
  "<<: *a",
  "name: !!str 5",
  "name: !x 5",
  "name: |",
  "name: >-",
  'name: "two',
  "two'",
  'lines"',
  "name: {a: b",
  "name: [",
  "]",
  "}",
  "? name",
  ": web",
  "\tname: web",
  "name:\tweb",
  "name: web\r",
  "\r",
  "name",
  "port: 0o17",
  "port: 1e1",
  '"name": web',
  "- - name: web",
  "-\tname: web",
  "name: a: b",
  "name: -",
  "name: 16015306313850616222",
  '- service: {"name":"a","name":"b"}',
  '- {"service":{"name":"a"}}',
  "\u2028- service: {}",
  "\ufeffname: web",
] as const;

const edit = fc.record({
  what: fc.constantFrom("insert", "replace", "delete", "swap", "indent"),
  at: fc.nat(),
  indent: fc.constantFrom(0, 0, 1, 2, 4, 6, 8),
  line: fc.constantFrom(...HOSTILE),
});

function edited(text: string, edits: readonly (typeof edit extends fc.Arbitrary<infer T> ? T : never)[]): string {
  const lines = text.split("\n");
  for (const { what, at, indent, line } of edits) {
    const index = at % lines.length;
    if (what === "insert") lines.splice(index, 0, " ".repeat(indent) + line);
    else if (what === "replace") lines[index] = /^ */.exec(lines[index]!)![0] + line;
    else if (what === "delete") lines.splice(index, 1);
    else if (what === "indent") lines[index] = " ".repeat(indent) + lines[index]!.trimStart();
    else lines.splice(index, 2, ...lines.slice(index, index + 2).reverse());
    if (lines.length === 0) lines.push("");
  }
  return lines.join("\n");
}

Deno.test("a state file with hostile lines reads the same item by item and as a whole, or has the same first error", async () => {
  await fc.assert(
    fc.asyncProperty(written, fc.array(edit, { minLength: 1, maxLength: 3 }), async (text, edits) => {
      const [byItem, asAWhole] = await bothWays(edited(text, edits));
      assert.deepEqual(byItem, asAWhole);
    }),
    runs(RUNS),
  );
});
