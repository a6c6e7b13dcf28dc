import assert from "node:assert/strict";
import type { Problem, ReportProblems } from "../../../../core/problems/mod.ts";
import { counter, createRegistry } from "../../../../platform/metrics/mod.ts";
import { telemetryChoice } from "../../../../features/telemetry/choice.ts";
import { start, type Telemetry } from "../../../../features/telemetry/start.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { createLogger, type Logger, silentLogger } from "../../../../platform/log.ts";
import { featureNode } from "../../../fakes/feature_node.ts";
import { type FakeCollector, startFakeCollector } from "../../../fakes/otlp_collector.ts";
import { withManifests, withWholeProxy } from "../../../fakes/whole_proxy.ts";
import { until } from "../../../fakes/wait.ts";

/** Runs a test with a collector and what exports to it; `scopes` are the problems by scope. */
async function withTelemetry(
  env: Readonly<Record<string, string | undefined>>,
  test: (
    telemetry: Telemetry,
    collector: FakeCollector,
    scopes: ReadonlyMap<string, readonly Problem[]>,
  ) => Promise<void>,
  own: { readonly nodeName?: string; readonly logger?: Logger } = { nodeName: "node-1" },
): Promise<void> {
  const collector = startFakeCollector();
  const scopes = new Map<string, readonly Problem[]>();
  const given: Readonly<Record<string, string | undefined>> = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...env };
  const environment = (name: string) => given[name];
  const process = { nodeName: own.nodeName, environment, logger: own.logger ?? silentLogger };
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
      traces?.reported?.({ ...sync, problems: [], counts: {} }, []);
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

/** Reports a sync, of which a trace is exported. */
function reportSync(telemetry: Telemetry): void {
  const sync = { family: "IPv4", revision: 1, ok: true, full: true, endedAtMs: 1, durationMs: 1 } as const;
  telemetry.startRun(node)?.reported?.({ ...sync, problems: [], counts: {} }, []);
}

Deno.test("the environment chooses a sampler, with or without parentbased_, which makes no difference", async () => {
  const table: readonly (readonly [sampler: string | undefined, argument: string | undefined, isExported: boolean])[] =
    [
      [undefined, undefined, true],
      ["unknown", undefined, true],
      ["always_on", "0", true],
      [" parentbased_always_on ", undefined, true],
      ["always_off", undefined, false],
      ["parentbased_always_off", "1", false],
      ["traceidratio", "0", false],
      ["parentbased_traceidratio", "0", false],
      ["traceidratio", "1", true],
      ["traceidratio", undefined, true],
    ];
  for (const [sampler, argument, isExported] of table) {
    const variables = { OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: argument };
    await withTelemetry(variables, async (telemetry, { received }) => {
      reportSync(telemetry);
      await telemetry.flush();
      assert.deepEqual(received.map(({ path }) => path), isExported ? ["/v1/traces"] : [], `${sampler} ${argument}`);
    });
  }
});

Deno.test("a server names itself, and no node", async () => {
  await withTelemetry({}, async (telemetry, { received }) => {
    reportSync(telemetry);
    await telemetry.flush();
    const { resource } = received[0]!, host = Deno.hostname();
    assert.deepEqual(
      ["service.name", "service.instance.id", "host.name", "k8s.node.name"].map((name) => resource[name]),
      ["sluice-serve", host, host, undefined],
    );
  }, {});
});

Deno.test("what is not exported yet is exported at the end", async () => {
  await withTelemetry({}, async (telemetry, { received }) => {
    reportSync(telemetry);
    assert.deepEqual(received, []);
    await telemetry.stop();
    assert.deepEqual(received.map(({ path }) => path), ["/v1/traces"]);
  });
});

/** A logger, and its lines without their times. */
function lines(level: "debug" | "warn") {
  const logged: string[] = [];
  const write = (line: string) => void logged.push(line.slice(25).trimEnd());
  return { logged, logger: createLogger({ level, format: "text", clock: systemClock, write }) };
}

/** The intervals in milliseconds at which `act` has something done. */
async function intervalsOf(act: () => Promise<void>): Promise<readonly unknown[]> {
  const original = globalThis.setInterval, intervals: unknown[] = [];
  const noting = (...args: Parameters<typeof setInterval>) => {
    intervals.push(args[1]);
    return original(...args);
  };
  globalThis.setInterval = noting as typeof setInterval;
  try {
    await act();
  } finally {
    globalThis.setInterval = original;
  }
  return intervals;
}

Deno.test("the environment sets how often and how much is exported; what is no positive number is warned of", async () => {
  const { logged, logger } = lines("warn");
  const variables = {
    OTEL_METRIC_EXPORT_INTERVAL: "1",
    OTEL_METRIC_EXPORT_TIMEOUT: "0",
    OTEL_BSP_SCHEDULE_DELAY: "1",
    OTEL_BSP_MAX_QUEUE_SIZE: "2147483648",
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "many",
    OTEL_BSP_EXPORT_TIMEOUT: "2147483647",
  };
  await withTelemetry(variables, async (telemetry, { received }) => {
    const registry = createRegistry();
    counter(registry, "n_total", "N").inc({});
    telemetry.attach({ read: () => Promise.resolve(registry.read()) }, 0);
    reportSync(telemetry);
    await until(() => ["/v1/metrics", "/v1/traces"].every((wanted) => received.some(({ path }) => path === wanted)));
  }, { logger });
  assert.deepEqual(logged.map((line) => /variable=(\S+) value=(\S+)/.exec(line)?.slice(1).join(" ")), [
    "OTEL_METRIC_EXPORT_TIMEOUT 0",
    "OTEL_BSP_MAX_QUEUE_SIZE 2147483648",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE many",
  ]);
});

Deno.test("metrics are exported every minute unless the environment sets another interval", async () => {
  for (const [interval, expected] of [[undefined, 60_000], [" ", 60_000], ["5000", 5_000]] as const) {
    const start = () => withTelemetry({ OTEL_METRIC_EXPORT_INTERVAL: interval }, () => Promise.resolve());
    assert.deepEqual(await intervalsOf(start), [expected]);
  }
});

Deno.test("the start logs the endpoints and warnings of the SDK; later ones repeat a problem, and are for debugging", async () => {
  const { logged, logger } = lines("debug");
  const variables = { OTEL_BSP_MAX_QUEUE_SIZE: "1", OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "2" };
  await withTelemetry(variables, async (telemetry, collector) => {
    const { url } = collector;
    assert.match(logged.shift()!, /^WARN .*maxExportBatchSize/);
    assert.deepEqual(logged.splice(0), [`INFO  exporting telemetry metrics=${url}/v1/metrics traces=${url}/v1/traces`]);
    await telemetry.flush();
    assert.deepEqual([logged, collector.received], [[], []], "there are no metrics yet");
    collector.answer(400);
    reportSync(telemetry);
    await telemetry.flush();
    assert.notDeepEqual(logged, []);
    assert.deepEqual(logged.filter((line) => !line.startsWith("DEBUG ")), []);
  }, { logger });
});

Deno.test("the environment of the process adds attributes to the resource, and overrides them", async () => {
  Deno.env.set("OTEL_RESOURCE_ATTRIBUTES", "host.name=other,site=north");
  Deno.env.set("OTEL_SERVICE_NAME", "edge");
  try {
    await withTelemetry({}, async (telemetry, { received }) => {
      reportSync(telemetry);
      await telemetry.flush();
      const { resource } = received[0]!;
      assert.deepEqual(["host.name", "site", "service.name"].map((name) => resource[name]), ["other", "north", "edge"]);
    });
  } finally {
    Deno.env.delete("OTEL_RESOURCE_ATTRIBUTES");
    Deno.env.delete("OTEL_SERVICE_NAME");
  }
});

Deno.test("only the signals that the environment asks for are exported", async () => {
  const only = { OTEL_METRICS_EXPORTER: "none", OTEL_TRACES_SAMPLER: "always_off" };
  await withTelemetry(only, async (telemetry, { received }) => {
    telemetry.attach({ read: () => Promise.reject(new Error("not to be read")) }, 0);
    reportSync(telemetry);
    await telemetry.flush();
    assert.deepEqual(received, []);
  });
  await withTelemetry({ OTEL_TRACES_EXPORTER: "none" }, (telemetry) => {
    assert.equal(telemetry.startRun(node), undefined);
    return Promise.resolve();
  });
});
