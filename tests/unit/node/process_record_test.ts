/** The record that a process keeps while a changed configuration file starts another run. */
import assert from "node:assert/strict";
import { listenOnControlSocket } from "../../../answers/control/socket.ts";
import { connectToProxy } from "../../../answers/control/client.ts";
import { systemClock } from "../../../platform/clock.ts";
import { createProcessRecord } from "../../../observe/mod.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { until } from "../../fakes/wait.ts";
import { withManifests, withWholeProxy } from "../../fakes/whole_proxy.ts";

const SERVICE = `apiVersion: v1
kind: Service
metadata: { name: web, namespace: shop }
spec: { clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10], ports: [{ port: 80 }] }
`;

Deno.test("events, counters and the start time outlast a changed configuration", async () => {
  const path = `${await Deno.makeTempDir()}/control`;
  const controlSocket = await listenOnControlSocket(path);
  await withManifests(
    SERVICE,
    ({ args }) =>
      withWholeProxy({ args, controlSocket }, async ({ url, report, replace }) => {
        const proxy = await connectToProxy(path, { clock: systemClock });
        const metrics = async () => await (await fetch(`${url}metrics`)).text();
        const syncs = async () =>
          Number(
            /^kubeproxy_sync_proxy_rules_duration_seconds_count\{ip_family="IPv4"\} (\d+)$/m.exec(await metrics())?.[1],
          );
        const drift = async () => /^sluice_drift_repaired_total\{ip_family="IPv4"\} (\d+)$/m.exec(await metrics())?.[1];
        await until(async () => await syncs() > 0);
        report("IPv4", { counts: { drift_repaired: 3 } });
        const before = await proxy.status(), events = (await proxy.events(0)).events, counted = await syncs();
        assert.ok(events.some(({ kind }) => kind === "drift"));
        await replace();
        await until(async () => await syncs() > counted);
        const after = await proxy.status(), later = await proxy.events(0);
        assert.equal(after.startedAtMs, before.startedAtMs);
        assert.equal(later.startedAtMs, before.startedAtMs);
        assert.deepEqual(later.events.slice(0, events.length), events);
        assert.equal(later.events[events.length]!.kind, "configuration");
        assert.equal(await drift(), "3");
        assert.equal(after.families.find(({ family }) => family === "IPv4")!.driftRepaired, 3);
      }),
  );
});

Deno.test("the workers of a run have not synced yet, however often those of the last one did", () => {
  const { recorder, endRun } = createProcessRecord(createFakeClock());
  const report = { revision: 1, ok: true, full: true, endedAtMs: 1, durationMs: 1, problems: [], counts: {} };
  recorder.workerHealth("IPv4", { state: "ready" });
  recorder.report({ family: "IPv4", ...report }, []);
  endRun([]);
  assert.deepEqual(recorder.families().map(({ worker, syncs }) => [worker.state, syncs.length]), [
    ["starting", 0],
    ["starting", 0],
  ]);
});
