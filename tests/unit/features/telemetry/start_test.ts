import assert from "node:assert/strict";
import type { Problem, ReportProblems } from "../../../../core/problems/mod.ts";
import { counter, createRegistry } from "../../../../platform/metrics/mod.ts";
import { telemetryChoice } from "../../../../features/telemetry/choice.ts";
import { start, type Telemetry } from "../../../../features/telemetry/start.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { featureNode } from "../../../fakes/feature_node.ts";
import { type FakeCollector, startFakeCollector } from "../../../fakes/otlp_collector.ts";
import { withManifests, withWholeProxy } from "../../../fakes/whole_proxy.ts";
import { until } from "../../../fakes/wait.ts";

/** Runs a test with a collector and what exports to it; `scopes` are the problems by scope. */
async function withTelemetry(
  env: Readonly<Record<string, string>>,
  test: (
    telemetry: Telemetry,
    collector: FakeCollector,
    scopes: ReadonlyMap<string, readonly Problem[]>,
  ) => Promise<void>,
): Promise<void> {
  const collector = startFakeCollector();
  const scopes = new Map<string, readonly Problem[]>();
  const given: Readonly<Record<string, string>> = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...env };
  const environment = (name: string) => given[name];
  const process = { nodeName: "node-1", environment, logger: silentLogger };
  const reportProblems: ReportProblems = (scope, problems) => void scopes.set(scope, problems);
  const telemetry = start({ ...process, reportProblems, clock: systemClock }, telemetryChoice(environment));
  try {
    await test(telemetry, collector, scopes);
  } finally {
    await telemetry.stop();
    await collector.close();
  }
}

const node = featureNode({ tracking: {} as never, clock: systemClock });

const SERVICE = `{ apiVersion: v1, kind: Service, metadata: { name: web, namespace: shop },
  spec: { clusterIP: 10.96.0.10, ports: [{ name: http, port: 80 }] } }`;

Deno.test("a proxy exports its metrics and a trace of each sync", async () => {
  await withTelemetry({}, async (telemetry, { received }) => {
    await withManifests(SERVICE, async ({ args }) => {
      await withWholeProxy({ args, processFeatures: new Map([["telemetry", telemetry]]) }, async () => {
        const spans = () => received.filter(({ path }) => path === "/v1/traces").flatMap(({ names }) => names);
        await until(async () => {
          await telemetry.flush();
          return spans().includes("sync/channel");
        });
        assert.deepEqual(new Set(spans()), new Set(["sync", "sync/plan", "sync/channel", "sync/apply"]));
      });
    });
    const metrics = received.findLast(({ path }) => path === "/v1/metrics");
    assert.ok(metrics?.names.includes("kubeproxy_sync_proxy_rules_duration_seconds"));
    assert.ok(metrics?.names.includes("process_resident_memory_bytes"));
    assert.equal(metrics?.resource["k8s.node.name"], "node-1");
    assert.equal(metrics?.resource["service.name"], "sluice");
    assert.match(metrics?.resource["service.version"] ?? "", /^\d+\.\d+\.\d+/);
  });
});

Deno.test("a collector that refuses is a problem of each signal until it accepts", async () => {
  await withTelemetry({}, async (telemetry, collector, scopes) => {
    const registry = createRegistry();
    counter(registry, "n_total", "N").inc({});
    telemetry.attach({ read: () => Promise.resolve(registry.read()) }, 0);
    const traces = telemetry.startRun(node);
    const sync = { family: "IPv4", revision: 1, ok: true, full: true, endedAtMs: 1, durationMs: 1 } as const;
    const exportBoth = async () => {
      traces?.reported?.({ ...sync, problems: [], figures: {} }, []);
      await telemetry.flush();
      return Object.fromEntries([...scopes].map(([scope, problems]) => [scope, problems.map(({ detail }) => detail)]));
    };
    collector.answer(400);
    assert.deepEqual(await exportBoth(), {
      "telemetry metrics": ["HTTP status 400"],
      "telemetry traces": ["HTTP status 400"],
    });
    assert.equal(scopes.get("telemetry metrics")![0]!.subject, `metrics to ${collector.url}/v1/metrics`);
    collector.answer(200);
    assert.deepEqual(await exportBoth(), { "telemetry metrics": [], "telemetry traces": [] });
    const exported = Object.fromEntries(collector.received.map(({ path, names }) => [path, names]));
    assert.deepEqual(exported, { "/v1/metrics": ["n_total"], "/v1/traces": ["sync/apply", "sync"] });
  });
});

Deno.test("only the signals that the environment asks for are exported", async () => {
  const only = { OTEL_METRICS_EXPORTER: "none", OTEL_TRACES_SAMPLER: "always_off" };
  await withTelemetry(only, async (telemetry, { received }) => {
    telemetry.attach({ read: () => Promise.reject(new Error("not to be read")) }, 0);
    const sync = { family: "IPv4", revision: 1, ok: true, full: true, endedAtMs: 1, durationMs: 1 } as const;
    telemetry.startRun(node)?.reported?.({ ...sync, problems: [], figures: {} }, []);
    await telemetry.flush();
    assert.deepEqual(received, []);
  });
  await withTelemetry({ OTEL_TRACES_EXPORTER: "none" }, (telemetry) => {
    assert.equal(telemetry.startRun(node), undefined);
    return Promise.resolve();
  });
});
