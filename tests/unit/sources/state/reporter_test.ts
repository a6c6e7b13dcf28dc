import assert from "node:assert/strict";
import { type ReadItem, readStateFile } from "../../../../sources/state/reading.ts";
import { createReporter } from "../../../../sources/state/mod.ts";
import { StateError } from "../../../../sources/state/document.ts";
import { createRecordingSink } from "../../../fakes/kpng.ts";

const SERVICES = 200;
const NOT_KNOWN = () => undefined;
const atOnce = () => Promise.resolve();

/** A service with two endpoints as written by Go's YAML packages. */
function item(index: number, address = `10.180.0.${index}`): string {
  return `- service:
    namespace: default
    name: web-${index}
    labels: {}
    ips:
      clusterips:
        v4:
        - 10.96.0.${index}
        v6: []
    ports:
    - name: http
      protocol: 1
      port: 80
      targetport: 8080
      targetportname: ""
    mapip: false
  endpoints:
  - podname: web-${index}-a
    endpoint:
      ips:
        v4:
        - ${address}
        v6: []
    conditions:
      ready: true
  - podname: web-${index}-b
    endpoint:
      ips:
        v4:
        - 10.181.0.${index}
`;
}

function file(items: readonly string[]): string {
  return `nodes:\n- name: node-a\nservices:\n${items.join("")}`;
}

/** A reporter, and the number of new items in each version. */
function createReadings() {
  const sink = createRecordingSink();
  const reporter = createReporter("state.yaml", sink, false);
  return {
    async next(text: string): Promise<{ readonly lines: readonly string[]; readonly parsed: number }> {
      let parsed = 0;
      const items = await readStateFile(text, (section, text) => {
        const path = reporter.known(section, text);
        if (path === undefined) parsed += text.length;
        return path;
      }, atOnce);
      await reporter.report(items, atOnce);
      return { lines: sink.take(), parsed };
    },
  };
}

const items = Array.from({ length: SERVICES }, (_, index) => item(index));

Deno.test("only the changed items of a state file are parsed and reported", async () => {
  const readings = createReadings();
  const first = await readings.next(file(items));
  assert.equal(first.lines.filter((line) => line.startsWith("set Service ")).length, SERVICES);
  const same = await readings.next(file(items));
  assert.deepEqual(same, { lines: [], parsed: 0 });
  const changed = item(7, "10.180.9.9");
  const second = await readings.next(file(items.with(7, changed)));
  assert.equal(second.parsed, changed.length);
  assert.equal(second.lines.length, 1);
  assert.match(second.lines[0]!, /^set EndpointSlice default\/web-7\..*10\.180\.9\.9.*10\.181\.0\.7/);
  const moved = await readings.next(file(items.with(7, changed).toReversed()));
  assert.deepEqual(moved, { lines: [], parsed: 0 });
  const fewer = await readings.next(file(items.toSpliced(7, 1)));
  assert.equal(fewer.parsed, 0);
  assert.deepEqual(fewer.lines.map((line) => line.split(" ").slice(0, 2).join(" ")).sort(), [
    "delete EndpointSlice",
    "delete Service",
  ]);
});

Deno.test("of duplicate services the last counts, even if only the first changes", async () => {
  const readings = createReadings();
  const second = item(1, "10.180.2.2");
  await readings.next(file([item(1), second]));
  const { lines } = await readings.next(file([item(1, "10.180.3.3"), second]));
  assert.deepEqual(lines, []);
  const alone = await readings.next(file([item(1, "10.180.3.3")]));
  assert.equal(alone.lines.length, 1);
  assert.match(alone.lines[0]!, /^set EndpointSlice .*10\.180\.3\.3/);
});

Deno.test("removed endpoints of a service are deleted", async () => {
  const readings = createReadings();
  const first = item(1);
  await readings.next(file([first]));
  const { lines } = await readings.next(file([first.slice(0, first.indexOf("  - podname: web-1-b"))]));
  assert.equal(lines.length, 1);
  assert.ok(!lines[0]!.includes("10.181.0.1"), lines[0]);
});

Deno.test("differences are reported for files that cannot be split, and for one that can after it", async () => {
  const readings = createReadings();
  await readings.next(file(items.slice(0, 3)));
  const anchored = file(items.slice(0, 3)).replaceAll("{}", "*none").replace("*none", "&none {}");
  assert.deepEqual((await readings.next(anchored)).lines, []);
  assert.deepEqual((await readings.next(file(items.slice(0, 3)))).lines, []);
});

Deno.test("the event loop gets a turn after each item", async () => {
  let turns = 0;
  const yieldTurn = () => {
    turns++;
    return Promise.resolve();
  };
  const read = await readStateFile(file(items), NOT_KNOWN, yieldTurn);
  assert.ok(turns >= 2 * SERVICES, `${turns} turns to split and parse`);
  turns = 0;
  await createReporter("state.yaml", createRecordingSink(), false).report(read, yieldTurn);
  assert.ok(turns >= SERVICES, `${turns} turns to report`);
});

Deno.test("a syntax error takes precedence over an invalid field", async () => {
  const text = file(items.with(3, "- service:\n    nam: web\n").with(5, "- service: {\n"));
  const before = file(items.slice(0, 5).with(3, "- service:\n    nam: web\n")).split("\n").length;
  await assert.rejects(readStateFile(text, NOT_KNOWN, atOnce), (error) => {
    assert.ok(error instanceof StateError);
    assert.ok(error.line >= before && error.line <= before + 1, `line ${error.line}, and not about ${before}`);
    return true;
  });
});

Deno.test("an alias of another item's anchor is resolved", async () => {
  const text = "services:\n- service: {name: a, labels: &labels {x: y}}\n- service: {name: b, labels: *labels}\n";
  const read: readonly ReadItem[] = await readStateFile(text, NOT_KNOWN, atOnce);
  assert.deepEqual((await read[1]!.item()).message.labels, { x: "y" });
});

Deno.test("an unknown alias, a circular one and a second document are errors with their lines", async () => {
  for (
    const [text, line, message] of [
      ["services:\n- service: {name: a, labels: *nowhere}\n", 2, "unknown alias *nowhere"],
      ["services:\n- service: &a {name: a, labels: *a}\n", 2, "circular alias *a"],
      ["services:\n- service: {name: a}\n---\nservices: []\n", 4, "must be one document"],
    ] as const
  ) {
    await assert.rejects(readStateFile(text, NOT_KNOWN, atOnce), { name: "StateError", line, message });
  }
});

Deno.test("an empty document at the end of a file is no second one", async () => {
  const read = await readStateFile("nodes:\n- name: a\n---\n# end\n", NOT_KNOWN, atOnce);
  assert.deepEqual(read.map(({ path }) => path), ["a"]);
});

Deno.test("merge keys are resolved, the first of several maps counts, and a quoted key merges nothing", async () => {
  const text = "nodes:\n- &a {name: a, labels: {x: y}}\n- &b {name: b}\n- <<: [*b, *a]\n- {<<: *a, name: c}\n" +
    '- {name: d, labels: {"<<": ""}}\n';
  const items = await Promise.all((await readStateFile(text, NOT_KNOWN, atOnce)).map(({ item }) => item()));
  assert.deepEqual(items.slice(2).map(({ message: { name, labels } }) => [name, labels]), [
    ["b", { x: "y" }],
    ["c", { x: "y" }],
    ["d", { "<<": "" }],
  ]);
});
