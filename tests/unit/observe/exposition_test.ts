import assert from "node:assert/strict";
import {
  addReadings,
  counter,
  createRegistry,
  gauge,
  histogram,
  type Registry,
} from "../../../platform/metrics/mod.ts";

Deno.test("counters and gauges are exposed with labels in the order of the description", () => {
  const registry = createRegistry();
  const requests = counter(registry, "requests_total", "Requests", ["code", "method"]);
  const depth = gauge(registry, "depth", "Depth");
  requests.inc({ method: "GET", code: "200" });
  requests.inc({ code: "200", method: "GET" }, 2);
  requests.inc({ code: "404", method: "GET" });
  depth.set({}, -0.5);
  assert.equal(
    registry.expose(),
    `# HELP requests_total Requests
# TYPE requests_total counter
requests_total{code="200",method="GET"} 3
requests_total{code="404",method="GET"} 1

# HELP depth Depth
# TYPE depth gauge
depth -0.5
`,
  );
});

Deno.test("a metric without labels starts at 0, one with labels has no samples at first; a reset restores this", () => {
  const registry = createRegistry();
  const plain = counter(registry, "plain_total", "Plain");
  const labelled = gauge(registry, "labelled", "Labelled", ["a"]);
  const times = histogram(registry, "times", "Times", ["a"], [1]);
  const atFirst = registry.expose();
  assert.match(atFirst, /^plain_total 0$/m);
  assert.doesNotMatch(atFirst, /^(labelled|times)/m);
  plain.inc({}, 7);
  labelled.set({ a: "x" }, 1);
  times.observe({ a: "x" }, 1);
  assert.notEqual(registry.expose(), atFirst);
  registry.reset();
  assert.equal(registry.expose(), atFirst);
});

Deno.test("histogram buckets are cumulative with inclusive bounds, and the last one counts every observation", () => {
  const registry = createRegistry();
  const seconds = histogram(registry, "seconds", "Seconds", ["family"], [0.001, 1]);
  for (const value of [0.001, 0.5, 1, 70]) seconds.observe({ family: "IPv4" }, value);
  assert.deepEqual(registry.expose().split("\n").filter((line) => !line.startsWith("#") && line !== ""), [
    'seconds_bucket{le="0.001",family="IPv4"} 1',
    'seconds_bucket{le="1",family="IPv4"} 3',
    'seconds_bucket{le="+Inf",family="IPv4"} 4',
    'seconds_sum{family="IPv4"} 71.501',
    'seconds_count{family="IPv4"} 4',
  ]);
});

Deno.test("values kept elsewhere are read at every exposition", () => {
  const registry = createRegistry();
  let value = 0;
  addReadings(registry, [["counter", "read_total", "Read", () => [[{ a: "x" }, ++value]], "a"]]);
  assert.match(registry.expose(), /^read_total\{a="x"\} 1$/m);
  assert.match(registry.expose(), /^read_total\{a="x"\} 2$/m);
});

Deno.test("counts continue from an earlier registry of the process, other values do not", () => {
  const fill = (registry: Registry) => {
    counter(registry, "counted_total", "A", ["a"]).inc({ a: "x" }, 2);
    gauge(registry, "level", "B", ["a"]).set({ a: "x" }, 2);
    histogram(registry, "seconds", "C", [], [1]).observe({}, 3);
    addReadings(registry, [["counter", "read_total", "D", () => [[{ a: "x" }, 5]], "a"]]);
    addReadings(registry, [["counter", "of_process_total", "E", () => 7]], false);
    return registry;
  };
  const second = fill(createRegistry(fill(createRegistry()).read())).expose();
  const values = second.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  assert.deepEqual(values, [
    'counted_total{a="x"} 4',
    'level{a="x"} 2',
    'seconds_bucket{le="1"} 0',
    'seconds_bucket{le="+Inf"} 2',
    "seconds_sum 6",
    "seconds_count 2",
    'read_total{a="x"} 10',
    "of_process_total 7",
  ]);
});

Deno.test("label values and help texts are escaped as the text format requires", () => {
  const registry = createRegistry();
  gauge(registry, "odd", "Back\\slash\nand line", ["value"]).set(
    { value: 'a"b\\c\nd' },
    Infinity,
  );
  assert.equal(
    registry.expose(),
    '# HELP odd Back\\\\slash\\nand line\n# TYPE odd gauge\nodd{value="a\\"b\\\\c\\nd"} +Inf\n',
  );
});

Deno.test("duplicate names are rejected, and counters never decrease", () => {
  const registry = createRegistry();
  const first = counter(registry, "a_total", "A");
  assert.throws(() => gauge(registry, "a_total", "A"), /a_total is registered already/);
  assert.throws(() => first.inc({}, -1), RangeError);
  assert.throws(() => first.inc({}, NaN), RangeError);
});

Deno.test("a registry is read as data with the labels that were given", () => {
  const registry = createRegistry();
  const odd = { a: 'x="1",b="\\n', b: "line\nbreak\\" };
  counter(registry, "n_total", "N", ["a", "b"]).inc(odd, 2);
  histogram(registry, "seconds", "Seconds", [], [1]).observe({}, 3);
  assert.deepEqual(registry.read(), [
    { name: "n_total", help: "N", type: "counter", series: [{ labels: odd, value: 2 }] },
    {
      ...{ name: "seconds", help: "Seconds", type: "histogram", bounds: [1] },
      series: [{ labels: {}, value: { counts: [0, 1], sum: 3 } }],
    },
  ]);
});
