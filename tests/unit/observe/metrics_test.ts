import { describeMode, MODE_DESCRIPTIONS } from "../../../backends/mod.ts";
import { type ProblemCode, problemCodes, problemKind } from "../../../core/problems/mod.ts";
import type { SourceServer } from "../../../core/objects/mod.ts";
import "../../../features/registry.ts";
import assert from "node:assert/strict";
import { createFakeClock } from "../../fakes/clock.ts";
import type { PacketCounts, ProxyMode, SyncReport } from "../../../core/model/mod.ts";
import type { MetricReading } from "../../../platform/metrics/mod.ts";
import { createSourceLink, type SourceLink } from "../../../observe/process/mod.ts";
import { createMetrics, type WorkerCounts } from "../../../observe/mod.ts";

const NOW = 1_700_000_000_000;

function report(overrides: Partial<SyncReport> = {}): SyncReport {
  return {
    family: "IPv4",
    revision: 1,
    ok: true,
    full: true,
    endedAtMs: NOW,
    durationMs: 3,
    problems: [],
    counts: {},
    ...overrides,
  };
}

function setUp(
  mode: ProxyMode = "iptables",
  readLink?: () => SourceLink,
  readRelayCounts?: () => Promise<WorkerCounts>,
) {
  let reads = 0, serviceChanges = 2;
  const counted = (pending: number, total: () => number) => ({
    pending: () => {
      reads++;
      return pending;
    },
    total,
  });
  const problems = new Map<ProblemCode, number>();
  let servers: readonly SourceServer[] = [];
  let packets: () => Promise<WorkerCounts<PacketCounts>> = () => Promise.resolve({});
  const metrics = createMetrics({
    mode: describeMode(mode),
    now: () => NOW,
    tracking: {
      services: counted(1, () => serviceChanges),
      endpoints: { IPv4: counted(2, () => 4), IPv6: counted(1, () => 0) },
    },
    families: [{
      family: "IPv4",
      changesPending: () => 5,
      noLocalEndpoints: () => ({ internal: 6, external: 7 }),
    }],
    featureGates: { ComponentFlagz: false },
    fileLimit: 65_536,
    readPacketCounts: () => packets(),
    problems: () => problems,
    link: readLink,
    readRelayCounts,
    servers: () => servers,
  });
  const lines = async () => (await metrics.expose()).split("\n");
  const samplesOf = async (name: string) => (await lines()).filter((line) => line.startsWith(name)).sort();
  return {
    metrics,
    problems,
    lines,
    samplesOf,
    reads: () => reads,
    setServiceChanges: (total: number) => serviceChanges = total,
    setServers: (value: readonly SourceServer[]) => servers = value,
    setPackets: (read: () => Promise<WorkerCounts<PacketCounts>>) => packets = read,
  };
}

/** `name type` of every metric with a prefix. */
async function typesOf(mode: ProxyMode, prefix: string): Promise<string[]> {
  const lines = await setUp(mode).lines();
  return lines.filter((line) => line.startsWith(`# TYPE ${prefix}`)).map((line) => line.slice(7 + prefix.length))
    .sort();
}

const IN_EVERY_MODE = [
  "conntrack_reconciler_deleted_entries_total counter",
  "conntrack_reconciler_sync_duration_seconds histogram",
  "network_programming_duration_seconds histogram",
  "proxy_healthz_total counter",
  "proxy_livez_total counter",
  "sync_proxy_rules_duration_seconds histogram",
  "sync_proxy_rules_endpoint_changes_pending gauge",
  "sync_proxy_rules_endpoint_changes_total counter",
  "sync_proxy_rules_last_queued_timestamp_seconds gauge",
  "sync_proxy_rules_last_timestamp_seconds gauge",
  "sync_proxy_rules_no_local_endpoints_total gauge",
  "sync_proxy_rules_service_changes_pending gauge",
  "sync_proxy_rules_service_changes_total counter",
];
const WHERE_SYNCS_ARE_PARTIAL = [
  "sync_full_proxy_rules_duration_seconds histogram",
  "sync_partial_proxy_rules_duration_seconds histogram",
];

Deno.test("each mode exposes the metrics that kube-proxy exposes in it", async () => {
  assert.deepEqual(
    await typesOf("iptables", "kubeproxy_"),
    [
      ...IN_EVERY_MODE,
      ...WHERE_SYNCS_ARE_PARTIAL,
      "iptables_ct_state_invalid_dropped_packets_total counter",
      "iptables_localhost_nodeports_accepted_packets_total counter",
      "sync_proxy_rules_iptables_last gauge",
      "sync_proxy_rules_iptables_partial_restore_failures_total counter",
      "sync_proxy_rules_iptables_restore_failures_total counter",
      "sync_proxy_rules_iptables_total gauge",
    ].sort(),
  );
  assert.deepEqual(
    await typesOf("nftables", "kubeproxy_"),
    [
      ...IN_EVERY_MODE,
      ...WHERE_SYNCS_ARE_PARTIAL,
      "sync_proxy_rules_nftables_cleanup_failures_total counter",
      "sync_proxy_rules_nftables_sync_failures_total counter",
    ].sort(),
  );
  assert.deepEqual(
    await typesOf("ipvs", "kubeproxy_"),
    [...IN_EVERY_MODE, "sync_proxy_rules_iptables_restore_failures_total counter"].sort(),
  );
});

Deno.test("every metric has a description of its own", async () => {
  for (const { name } of MODE_DESCRIPTIONS) {
    const link = createSourceLink(createFakeClock());
    const texts = new Map<string, string>();
    for (const line of await setUp(name, link.current, () => Promise.resolve({})).lines()) {
      const [, metric, text] = /^# HELP (\S+) (.*)$/.exec(line) ?? [];
      if (metric === undefined) continue;
      assert.match(text!, /\w{3}/, metric);
      assert.equal(texts.get(text!), undefined, `${metric} has the description of another metric`);
      texts.set(text!, metric);
    }
    assert.ok(texts.size > 30);
  }
});

Deno.test("the counts of a run continue in the next one, but not the process's own", async () => {
  const options = {
    mode: describeMode("iptables"),
    now: () => NOW,
    families: [],
    featureGates: {},
    problems: () => new Map(),
  };
  const nothing = { pending: () => 0, total: () => 0 };
  const tracking = { services: nothing, endpoints: { IPv4: nothing, IPv6: nothing } };
  const start = (earlier?: readonly MetricReading[]) =>
    createMetrics({ ...options, tracking, readPacketCounts: () => Promise.resolve({}), earlier });
  const first = start();
  first.healthAnswered("livez", 200);
  const earlier = (await first.read()).map((reading) =>
    reading.name === "process_cpu_seconds_total" && reading.type === "counter"
      ? { ...reading, series: reading.series.map((one) => ({ ...one, value: 1e9 })) }
      : reading
  );
  const second = start(earlier);
  second.healthAnswered("livez", 200);
  const text = await second.expose();
  assert.match(text, /^kubeproxy_proxy_livez_total\{code="200"\} 2$/m);
  assert.ok(Number(/^process_cpu_seconds_total (\S+)$/m.exec(text)![1]) < 1e9);
});

Deno.test("process and version metrics are exposed", async () => {
  const { samplesOf } = setUp();
  assert.match(
    (await samplesOf("kubernetes_build_info"))[0]!,
    /^kubernetes_build_info\{major="1",minor="37",git_version="v1\.37\.\d+",.*compiler="deno",platform="\w+\/\w+"\} 1$/,
  );
  assert.match((await samplesOf("sluice_build_info"))[0]!, /version="\d/);
  for (const name of ["cpu_seconds_total", "resident_memory_bytes", "start_time_seconds"]) {
    const [sample = ""] = await samplesOf(`process_${name}`);
    assert.ok(Number(sample.split(" ")[1]) > 0, sample);
  }
});

Deno.test("full and partial syncs are counted separately per family, in kube-proxy's buckets", async () => {
  const { metrics, samplesOf } = setUp();
  metrics.observe(report({ durationMs: 3 }));
  metrics.observe(report({ durationMs: 20_000, full: false }));
  metrics.observe(report({ family: "IPv6", durationMs: 1 }));
  const counts = async (name: string) => (await samplesOf(`kubeproxy_sync_${name}_duration_seconds_count`));
  assert.deepEqual(await counts("proxy_rules"), [
    'kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"} 2',
    'kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv6"} 1',
  ]);
  const sums = async (name: string) => (await samplesOf(`kubeproxy_sync_${name}_duration_seconds_sum`));
  assert.deepEqual(await sums("full_proxy_rules"), [
    'kubeproxy_sync_full_proxy_rules_duration_seconds_sum{ip_family="IPv4"} 0.003',
    'kubeproxy_sync_full_proxy_rules_duration_seconds_sum{ip_family="IPv6"} 0.001',
  ]);
  assert.deepEqual(await sums("partial_proxy_rules"), [
    'kubeproxy_sync_partial_proxy_rules_duration_seconds_sum{ip_family="IPv4"} 20',
  ]);
  const buckets = (await samplesOf("kubeproxy_sync_proxy_rules_duration_seconds_bucket")).filter((line) =>
    line.includes("IPv4")
  );
  assert.equal(buckets.length, 16);
  assert.ok(buckets.includes('kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="0.002",ip_family="IPv4"} 0'));
  assert.ok(buckets.includes('kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="0.004",ip_family="IPv4"} 1'));
  assert.ok(buckets.includes('kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="16.384",ip_family="IPv4"} 1'));
  assert.ok(buckets.includes('kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="+Inf",ip_family="IPv4"} 2'));
});

Deno.test("the programming latency is measured from each trigger to the end of the successful sync", async () => {
  const { metrics, samplesOf } = setUp();
  const name = "kubeproxy_network_programming_duration_seconds";
  metrics.observe(report({ ok: false }), [NOW - 1_000]);
  assert.deepEqual(await samplesOf(`${name}_count`), []);
  metrics.observe(report(), [NOW - 1_500, NOW - 61_000, NOW + 1_000]);
  assert.deepEqual(await samplesOf(`${name}_count`), [`${name}_count{ip_family="IPv4"} 3`]);
  assert.deepEqual(await samplesOf(`${name}_sum`), [`${name}_sum{ip_family="IPv4"} 61.5`]);
  const buckets = await samplesOf(`${name}_bucket`);
  assert.equal(buckets.length, 1 + 2 + 59 + 12 + 7 + 1);
  for (const [bound, count] of [["0", 1], ["0.25", 1], ["1", 1], ["2", 2], ["60", 2], ["65", 3], ["300", 3]]) {
    assert.ok(buckets.includes(`${name}_bucket{le="${bound}",ip_family="IPv4"} ${count}`), `${bound}: ${count}`);
  }
});

Deno.test("the last sync time is that of the last successful sync; the last request time is that of any request", async () => {
  const { metrics, samplesOf } = setUp();
  metrics.observe(report());
  metrics.observe(report({ ok: false, endedAtMs: NOW + 5_000 }));
  metrics.queued("IPv6");
  assert.deepEqual(await samplesOf("kubeproxy_sync_proxy_rules_last"), [
    `kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv6"} ${NOW / 1000}`,
    `kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} ${NOW / 1000}`,
  ]);
});

Deno.test("counts become gauges with the last value and counters that add up; unknown counts are ignored", async () => {
  const { metrics, samplesOf } = setUp();
  const counts = { iptables_rules_nat: 10, iptables_rules_filter: 20, iptables_rules_last_nat: 3, never_heard_of: 1 };
  metrics.observe(report({ counts: { ...counts, restore_failures: 1, drift_repaired: 4, conntrack_ms: 5 } }));
  metrics.observe(report({ counts: { iptables_rules_last_nat: 1, restore_failures: 2, conntrack_deleted: 8 } }));
  assert.deepEqual(await samplesOf("kubeproxy_sync_proxy_rules_iptables"), [
    'kubeproxy_sync_proxy_rules_iptables_last{ip_family="IPv4",table="nat"} 1',
    'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total{ip_family="IPv4"} 0',
    'kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"} 3',
    'kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="filter"} 20',
    'kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="nat"} 10',
  ]);
  assert.deepEqual(await samplesOf("kubeproxy_conntrack_reconciler_deleted"), [
    'kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 8',
  ]);
  assert.deepEqual(await samplesOf("kubeproxy_conntrack_reconciler_sync_duration_seconds_sum"), [
    'kubeproxy_conntrack_reconciler_sync_duration_seconds_sum{ip_family="IPv4"} 0.005',
  ]);
  assert.deepEqual(await samplesOf("sluice_drift"), ['sluice_drift_repaired_total{ip_family="IPv4"} 4']);
});

Deno.test("the problems of the last sync are counted per family", async () => {
  const { metrics, samplesOf } = setUp();
  const problem = { code: "sync-failed", servicePort: undefined, message: "no" } as const;
  metrics.observe(report({ problems: [problem, problem] }));
  assert.deepEqual(await samplesOf("sluice_problems{"), ['sluice_problems{ip_family="IPv4"} 2']);
  metrics.observe(report());
  assert.deepEqual(await samplesOf("sluice_problems{"), ['sluice_problems{ip_family="IPv4"} 0']);
});

Deno.test("every problem code is a series with its severity, 0 without such a problem", async () => {
  const { problems, samplesOf } = setUp();
  const lasting = async () => (await samplesOf("sluice_problem{")).filter((line) => !line.endsWith(" 0"));
  const codes = problemCodes().filter((code) => !problemKind(code).checkOnly);
  assert.equal((await samplesOf("sluice_problem{")).length, codes.length);
  assert.deepEqual(await lasting(), []);
  problems.set("object-invalid", 3).set("sync-failed", 1);
  assert.deepEqual(await lasting(), [
    'sluice_problem{code="object-invalid",severity="warning"} 3',
    'sluice_problem{code="sync-failed",severity="error"} 1',
  ]);
});

Deno.test("values kept elsewhere are read only when metrics are scraped", async () => {
  const { metrics, samplesOf, reads, setServiceChanges } = setUp();
  metrics.observe(report());
  assert.equal(reads(), 0);
  const changes = async () => [
    ...await samplesOf("kubeproxy_sync_proxy_rules_service"),
    ...await samplesOf("kubeproxy_sync_proxy_rules_endpoint"),
    ...await samplesOf("kubeproxy_sync_proxy_rules_no_local"),
    ...await samplesOf("sluice_changes"),
  ];
  assert.deepEqual(await changes(), [
    "kubeproxy_sync_proxy_rules_service_changes_pending 1",
    "kubeproxy_sync_proxy_rules_service_changes_total 2",
    "kubeproxy_sync_proxy_rules_endpoint_changes_pending 3",
    "kubeproxy_sync_proxy_rules_endpoint_changes_total 4",
    'kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"} 7',
    'kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="internal"} 6',
    'sluice_changes_pending{ip_family="IPv4"} 5',
  ]);
  setServiceChanges(9);
  assert.equal((await changes())[1], "kubeproxy_sync_proxy_rules_service_changes_total 9");
});

Deno.test("each restart of a worker is counted once, however often it is reported", async () => {
  const { metrics, samplesOf } = setUp();
  metrics.workerHealth("IPv6", { state: "restarting", reason: "x", restarts: 1 });
  metrics.workerHealth("IPv6", { state: "restarting", reason: "y", restarts: 1 });
  metrics.workerHealth("IPv6", { state: "ready" });
  metrics.workerHealth("IPv6", { state: "restarting", reason: "x", restarts: 3 });
  assert.deepEqual(await samplesOf("sluice_worker_restarts"), ['sluice_worker_restarts_total{ip_family="IPv6"} 3']);
});

Deno.test("health check responses are counted by status", async () => {
  const { metrics, samplesOf } = setUp();
  metrics.healthAnswered("healthz", 200);
  metrics.healthAnswered("healthz", 503);
  metrics.healthAnswered("livez", 200);
  metrics.healthAnswered("livez", 200);
  assert.deepEqual(await samplesOf("kubeproxy_proxy_"), [
    'kubeproxy_proxy_healthz_total{code="200"} 1',
    'kubeproxy_proxy_healthz_total{code="503"} 1',
    'kubeproxy_proxy_livez_total{code="200"} 2',
  ]);
});

Deno.test("packet counts of rules are read at a scrape, summed over families, and never decrease", async () => {
  const { samplesOf, setPackets } = setUp();
  const INVALID = "kubeproxy_iptables_ct_state_invalid_dropped_packets_total";
  const LOCALHOST = "kubeproxy_iptables_localhost_nodeports_accepted_packets_total";
  const shown = async () => (await samplesOf("kubeproxy_iptables_")).map((line) => Number(line.split(" ")[1]));
  const counts = (ctStateInvalidDropped: number, localhostNodePortsAccepted: number) => ({
    ctStateInvalidDropped,
    localhostNodePortsAccepted,
  });
  assert.deepEqual((await samplesOf("kubeproxy_iptables_")).map((line) => line.split(" ")[0]), [INVALID, LOCALHOST]);
  setPackets(() => Promise.resolve({ IPv4: counts(5, 2), IPv6: counts(1, 0) }));
  assert.deepEqual(await shown(), [6, 2]);
  assert.deepEqual(await shown(), [6, 2], "the same counts add nothing");
  setPackets(() => Promise.resolve({ IPv6: counts(4, 0) }));
  assert.deepEqual(await shown(), [9, 2], "a family that does not answer keeps its counts");
  setPackets(() => Promise.resolve({ IPv4: counts(2, 3), IPv6: counts(4, 0) }));
  assert.deepEqual(await shown(), [11, 3], "a rewritten rule counts from 0");
});

Deno.test("concurrent scrapes read the packet counts once", async () => {
  const { metrics, setPackets } = setUp();
  let reads = 0;
  const answer = Promise.withResolvers<WorkerCounts<PacketCounts>>();
  setPackets(() => {
    reads++;
    return answer.promise;
  });
  const scrapes = [metrics.expose(), metrics.expose(), metrics.expose()];
  answer.resolve({ IPv4: { ctStateInvalidDropped: 7, localhostNodePortsAccepted: 0 } });
  for (const text of await Promise.all(scrapes)) assert.match(text, /ct_state_invalid_dropped_packets_total 7\n/);
  assert.equal(reads, 1);
});

for (const mode of ["nftables", "ipvs"] as const) {
  Deno.test(`mode ${mode} has no such rules and reads no packet counts`, async () => {
    const { lines, setPackets } = setUp(mode);
    setPackets(() => Promise.reject(new Error("nothing is to be read")));
    assert.doesNotMatch((await lines()).join("\n"), /kubeproxy_iptables_/);
  });
}

Deno.test("gated features are exposed with their stage", async () => {
  assert.deepEqual(await setUp().samplesOf("kubernetes_feature_enabled"), [
    'kubernetes_feature_enabled{name="AllowServiceExternalIPs",stage=""} 1',
    'kubernetes_feature_enabled{name="ComponentFlagz",stage="BETA"} 0',
    'kubernetes_feature_enabled{name="ComponentStatusz",stage="BETA"} 1',
    'kubernetes_feature_enabled{name="KubeProxyIPVS",stage="DEPRECATED"} 1',
    'kubernetes_feature_enabled{name="KubeProxyNFTablesLocalhostNodePorts",stage="ALPHA"} 1',
    'kubernetes_feature_enabled{name="MultiCIDRServiceAllocator",stage=""} 1',
    'kubernetes_feature_enabled{name="NFTablesProxyMode",stage=""} 1',
    'kubernetes_feature_enabled{name="PreferSameTrafficDistribution",stage=""} 1',
  ]);
});

Deno.test("API server requests are counted as client-go counts them", async () => {
  const { metrics, samplesOf } = setUp();
  const host = "10.0.0.1:6443";
  const get = { method: "GET", host, requestBytes: 0 } as const;
  metrics.apiRequest({ ...get, status: 200, durationMs: 300, responseBytes: 5_000 });
  metrics.apiRequest({ ...get, status: 200, durationMs: undefined, responseBytes: undefined });
  metrics.apiRequest({ ...get, status: undefined, durationMs: 2_000, responseBytes: undefined });
  metrics.apiRequest({ method: "POST", host, requestBytes: 700, status: 403, durationMs: 4, responseBytes: undefined });
  assert.deepEqual(await samplesOf("rest_client_requests_total"), [
    `rest_client_requests_total{code="200",method="GET",host="${host}"} 2`,
    `rest_client_requests_total{code="403",method="POST",host="${host}"} 1`,
    `rest_client_requests_total{code="<error>",method="GET",host="${host}"} 1`,
  ]);
  const sums = async (name: string) => (await samplesOf(`rest_client_${name}_sum`)).map((line) => line.slice(12));
  assert.deepEqual(await sums("request_duration_seconds"), [
    `request_duration_seconds_sum{verb="GET",host="${host}"} 2.3`,
    `request_duration_seconds_sum{verb="POST",host="${host}"} 0.004`,
  ]);
  assert.deepEqual(await sums("request_size_bytes"), [`request_size_bytes_sum{verb="POST",host="${host}"} 700`]);
  assert.deepEqual(await sums("response_size_bytes"), [`response_size_bytes_sum{verb="GET",host="${host}"} 5000`]);
  const bucket = (name: string, le: string) => `rest_client_${name}_bucket{le="${le}",verb="GET",host="${host}"} 1`;
  assert.ok((await samplesOf("rest_client_request_duration")).includes(bucket("request_duration_seconds", "0.5")));
  assert.ok((await samplesOf("rest_client_response")).includes(bucket("response_size_bytes", "16384")));
  // client-go's.
  const boundsOf = async (name: string) =>
    (await samplesOf(`rest_client_${name}_bucket`)).flatMap((line) => /le="([\d.]+)",verb="POST"/.exec(line)?.[1] ?? [])
      .map(Number).sort((a, b) => a - b);
  assert.deepEqual(await boundsOf("request_duration_seconds"), [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60]);
  const sizes = [64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216];
  assert.deepEqual(await boundsOf("request_size_bytes"), sizes);
});

Deno.test("a failed restore in a partial sync also counts as partial", async () => {
  const { metrics, samplesOf } = setUp();
  metrics.observe(report({ full: true, counts: { restore_failures: 2 } }));
  metrics.observe(report({ full: false, counts: { restore_failures: 3 } }));
  assert.deepEqual(
    (await samplesOf("kubeproxy_sync_proxy_rules_iptables")).filter((line) => line.includes("failures")),
    [
      'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total{ip_family="IPv4"} 3',
      'kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"} 5',
    ],
  );
});

Deno.test("open file descriptors are exposed if the runtime can count them, and never as 0", async () => {
  const samples = await setUp().samplesOf("process_open_fds");
  for (const sample of samples) assert.ok(Number(sample.split(" ")[1]) > 2, sample);
});

Deno.test("the open file limit is exposed if known", async () => {
  assert.deepEqual(await setUp().samplesOf("process_max_fds"), ["process_max_fds 65536"]);
});

Deno.test("failed cleanups are counted in nftables mode", async () => {
  const { metrics, samplesOf } = setUp("nftables");
  metrics.observe(report({ counts: { cleanup_failures: 2 } }));
  assert.deepEqual(await samplesOf("kubeproxy_sync_proxy_rules_nftables_cleanup"), [
    'kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total{ip_family="IPv4"} 2',
  ]);
});

Deno.test("the link to a server is a metric; a source that is a file has none", async () => {
  const clock = createFakeClock();
  const link = createSourceLink(clock);
  const { samplesOf } = setUp("nftables", link.current);
  assert.deepEqual(await samplesOf("sluice_source_"), ["sluice_source_connected 0"]);
  link.report("services", "https://api", { type: "answered" });
  assert.deepEqual(await samplesOf("sluice_source_"), [
    "sluice_source_connected 1",
    `sluice_source_last_received_timestamp_seconds ${clock.now() / 1000}`,
  ]);
  link.report("services", "https://api", { type: "failed", error: "refused", retryInMs: 1 });
  assert.deepEqual((await samplesOf("sluice_source_"))[0], "sluice_source_connected 0");
  link.serveKept(1_600_000_000_000);
  const kept = "sluice_source_kept_state_timestamp_seconds";
  assert.deepEqual(await samplesOf(kept), [`${kept} 1600000000`]);
  link.serveKept(undefined);
  assert.deepEqual(await samplesOf(kept), []);
  assert.deepEqual(await setUp("nftables").samplesOf("sluice_source_"), []);
});

Deno.test("every server of the source has a series, 1 for the one in use", async () => {
  const { samplesOf, setServers } = setUp();
  assert.deepEqual(await samplesOf("sluice_source_server"), []);
  setServers([{ address: "a:12090", inUse: false }, { address: "unix:///run/b.sock", inUse: true }]);
  assert.deepEqual(await samplesOf("sluice_source_server"), [
    'sluice_source_server{server="a:12090"} 0',
    'sluice_source_server{server="unix:///run/b.sock"} 1',
  ]);
});

Deno.test("the relays' counts are shown by family, and counters survive a restart of a relay", async () => {
  const counts = { connectionsOpen: 2, connectionsAccepted: 10, failovers: 1 };
  let read: Record<string, number> | undefined = counts;
  const { metrics } = setUp("userspace", undefined, () => Promise.resolve({ IPv4: read }));
  const shown = async (name: string) => (await metrics.expose()).match(new RegExp(`^${name}[{ ].*$`, "m"))?.[0];
  const accepted = 'sluice_relay_connections_accepted_total{ip_family="IPv4"}';
  assert.equal(await shown("sluice_relay_connections"), 'sluice_relay_connections{ip_family="IPv4"} 2');
  assert.equal(await shown("sluice_relay_connections_accepted_total"), `${accepted} 10`);
  read = { ...counts, connectionsAccepted: 3 };
  assert.equal(await shown("sluice_relay_connections_accepted_total"), `${accepted} 13`);
  const { metrics: plain } = setUp();
  assert.doesNotMatch(await plain.expose(), /sluice_relay/);
});

Deno.test("nftables mode has kube-proxy's metrics of the listeners for node ports at localhost, other modes do not", async () => {
  const read = () => Promise.resolve({ IPv4: { listeners: 2, listenersFailed: 1 }, IPv6: { listeners: 0 } });
  const ofMode = (mode: ProxyMode, readRelayCounts?: typeof read) =>
    setUp(mode, undefined, readRelayCounts).samplesOf("kubeproxy_nftables_localhost_nodeport_");
  assert.deepEqual(await ofMode("nftables", read), [
    'kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total{ip_family="IPv4"} 1',
    'kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total{ip_family="IPv6"} 0',
    'kubeproxy_nftables_localhost_nodeport_listeners{ip_family="IPv4"} 2',
    'kubeproxy_nftables_localhost_nodeport_listeners{ip_family="IPv6"} 0',
  ]);
  assert.deepEqual(await ofMode("nftables"), []);
  assert.deepEqual(await ofMode("ipvs", read), []);
});
