import assert from "node:assert/strict";
import { startProcessFeatures } from "../../../../features/mod.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { featureNode } from "../../../fakes/feature_node.ts";
import { startFakeCollector } from "../../../fakes/otlp_collector.ts";

/** Starts it in a process and returns whether it is on, and whether a run of it has traces. */
async function started(nodeName: string | undefined, environment: Readonly<Record<string, string>>) {
  const process = { nodeName, clock: systemClock, logger: silentLogger };
  const all = await startProcessFeatures({ ...process, environment: (name) => environment[name], reportProblems() {} });
  const running = all.get("telemetry");
  const run = running?.startRun(featureNode({ tracking: {} as never, clock: systemClock }));
  await running?.stop();
  return { isOn: running !== undefined, hasTraces: run !== undefined };
}

Deno.test("it is on if the environment names a collector, and traces the syncs of a node only", async () => {
  const collector = startFakeCollector();
  try {
    const environment = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url };
    assert.deepEqual(await started("node-1", environment), { isOn: true, hasTraces: true });
    assert.deepEqual(await started(undefined, environment), { isOn: true, hasTraces: false });
    assert.deepEqual(await started("node-1", {}), { isOn: false, hasTraces: false });
  } finally {
    await collector.close();
  }
});
