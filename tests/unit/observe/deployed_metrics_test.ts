import { addCanaries } from "../../../features/canary/start.ts";
/** Alert rules and dashboard in deploy/ use only metrics that Sluice exposes. */
import { MODE_DESCRIPTIONS } from "../../../backends/mod.ts";
import assert from "node:assert/strict";
import { parse } from "yaml";
import { createFakeClock } from "../../fakes/clock.ts";
import { NOTHING_COUNTED } from "../../fakes/metric_sources.ts";
import { createSourceLink } from "../../../observe/process/mod.ts";
import { createMetrics } from "../../../observe/mod.ts";
import { addTrafficMetrics } from "../../../features/traffic/start.ts";
import { createTrafficRecorder } from "../../../features/traffic/recorder.ts";
import { createServingMetrics } from "../../../serve/operator.ts";

const DEPLOY = new URL("../../../deploy/", import.meta.url);
const OURS = /\b(?:kubeproxy|sluice|process|kubernetes)_[a-z0-9_]+/g;

interface Rules {
  readonly groups: readonly { readonly rules: readonly { readonly alert: string; readonly expr: string }[] }[];
}

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly type: string;
  readonly gridPos: { readonly x: number; readonly w: number };
  readonly targets?: readonly { readonly expr: string }[];
}

/** All series that Sluice exposes as a proxy in any mode, and as a server. */
async function exposed(): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for (const mode of MODE_DESCRIPTIONS) {
    const link = createSourceLink(createFakeClock()).current;
    const metrics = createMetrics({ ...NOTHING_COUNTED, mode, link });
    const recorder = createTrafficRecorder(createFakeClock(), () => undefined);
    addTrafficMetrics(metrics.registry, recorder, true);
    addCanaries(metrics.registry, () => []);
    add(await metrics.expose());
  }
  const source = () => ({ isReady: true, lastEventMs: 0 });
  add(await createServingMetrics({ count: () => 0, source, problems: () => new Map() }).expose());
  return names;

  function add(metrics: string): void {
    for (const [, name, type] of metrics.matchAll(/^# TYPE (\S+) (\S+)$/gm)) {
      for (const suffix of type === "histogram" ? ["_bucket", "_count", "_sum"] : [""]) names.add(name + suffix);
    }
  }
}

async function unknownIn(expressions: readonly string[]): Promise<string[]> {
  const known = await exposed();
  return expressions.flatMap((expression) => expression.match(OURS) ?? []).filter((name) => !known.has(name));
}

Deno.test("every metric used by an alert is exposed", async () => {
  const { groups } = parse(Deno.readTextFileSync(new URL("alerts.yaml", DEPLOY))) as Rules;
  const rules = groups.flatMap(({ rules }) => rules);
  assert.ok(rules.length > 5);
  assert.deepEqual(await unknownIn(rules.map(({ expr }) => expr)), []);
});

Deno.test("every metric on the dashboards is exposed, and their panels fit the grid", async () => {
  for (const [file, least] of [["grafana-dashboard.json", 11], ["grafana-traffic-dashboard.json", 9]] as const) {
    const { panels } = JSON.parse(Deno.readTextFileSync(new URL(file, DEPLOY))) as {
      readonly panels: readonly Panel[];
    };
    const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
    assert.ok(expressions.length >= least);
    assert.deepEqual(await unknownIn(expressions), []);
    assert.ok(panels.every(({ gridPos: { x, w } }) => x + w <= 24));
    assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
  }
});

Deno.test("a metric that is not exposed is detected", async () => {
  assert.deepEqual(await unknownIn(["rate(sluice_made_up_total[1m]) > sluice_problems"]), ["sluice_made_up_total"]);
});
