import assert from "node:assert/strict";
import type { Family, TrafficCoverage, TrafficReading } from "../../../../core/model/mod.ts";
import { createRegistry } from "../../../../platform/metrics/mod.ts";
import { addTrafficMetrics } from "../../../../features/traffic/start.ts";
import { createTrafficRecorder } from "../../../../features/traffic/recorder.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

const WEB = "shop/web:http|tcp", DNS = "kube-system/dns|udp";
const ONE = "10.1.0.1:80", TWO = "10.1.0.2:80";

/** A reading with one row per entry: service port, endpoint, connections, packets, bytes. */
function reading(
  rows: readonly (readonly [string, string, number, number, number])[],
  failures: TrafficReading["failures"] = [],
): TrafficReading {
  return {
    durationMs: 1,
    ports: rows.map(([port]) => port),
    endpoints: rows.map(([, endpoint]) => endpoint),
    counts: Float64Array.from(rows.flatMap(([, , ...counts]) => counts)),
    failures,
  };
}

function recording(coverage?: TrafficCoverage) {
  const clock = createFakeClock();
  const known = new Map([[WEB, new Set([ONE, TWO])], [DNS, new Set(["10.1.0.3:53"])]]);
  const recorder = createTrafficRecorder(clock, (_family, key) => known.get(key), coverage);
  const metrics = (withEndpoints: boolean) => {
    const registry = createRegistry();
    addTrafficMetrics(registry, recorder, withEndpoints);
    return registry.expose().split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  };
  return { clock, known, recorder, metrics };
}

const IPv4: Family = "IPv4";

Deno.test("counts add up, and rates are those between the last two readings", () => {
  const { clock, recorder } = recording();
  recorder.note(IPv4, reading([[WEB, ONE, 1, 10, 1000]]));
  assert.equal(recorder.ofPort(IPv4, WEB).perSecond.connections, 0);
  clock.advance(10_000);
  recorder.note(IPv4, reading([[WEB, ONE, 20, 200, 20_000], [WEB, TWO, 10, 100, 10_000]]));
  assert.deepEqual(recorder.ofPort(IPv4, WEB), {
    connections: 31,
    packets: 310,
    bytes: 31_000,
    perSecond: { connections: 3, packets: 30, bytes: 3000 },
    failures: {},
  });
  assert.deepEqual(recorder.ofEndpoint(IPv4, WEB, TWO), {
    connections: 10,
    packets: 100,
    bytes: 10_000,
    perSecond: { connections: 1, packets: 10, bytes: 1000 },
  });
  clock.advance(10_000);
  recorder.note(IPv4, reading([]));
  assert.deepEqual(recorder.ofPort(IPv4, WEB).perSecond, { connections: 0, packets: 0, bytes: 0 });
  assert.equal(recorder.ofPort(IPv4, WEB).connections, 31);
  assert.equal(recorder.ofPort("IPv6", WEB).connections, 0);
});

Deno.test("an endpoint that is gone is forgotten, and its service port keeps its counts", () => {
  const { known, recorder } = recording();
  recorder.note(IPv4, reading([[WEB, ONE, 1, 1, 1], [WEB, TWO, 1, 1, 1]]));
  known.set(WEB, new Set([TWO]));
  recorder.note(IPv4, reading([[WEB, TWO, 1, 1, 1]]));
  assert.equal(recorder.ofEndpoint(IPv4, WEB, ONE).connections, 0);
  assert.equal(recorder.ofPort(IPv4, WEB).connections, 3);
});

Deno.test("service ports that are unknown or gone have no counts", () => {
  const { known, recorder } = recording();
  recorder.note(IPv4, reading([["shop/other|tcp", ONE, 1, 1, 1], [WEB, ONE, 1, 1, 1]]));
  assert.deepEqual([...recorder.ports()].map(({ key }) => key), [WEB]);
  known.delete(WEB);
  recorder.forget(IPv4, [WEB]);
  recorder.note(IPv4, reading([[WEB, ONE, 1, 1, 1]]));
  assert.deepEqual([...recorder.ports()], []);
});

Deno.test("metrics have a series for each service port with traffic, and for each endpoint only if asked for", () => {
  const { recorder, metrics } = recording();
  recorder.note(
    IPv4,
    reading([[WEB, ONE, 2, 20, 2000]], [{ port: DNS, reason: "no-endpoints", packets: 3 }]),
  );
  const web = 'namespace="shop",service="web",port="http",protocol="tcp",ip_family="IPv4"';
  const dns = 'namespace="kube-system",service="dns",port="",protocol="udp",ip_family="IPv4"';
  const services = [
    `sluice_service_connections_total{${web}} 2`,
    `sluice_service_connections_total{${dns}} 0`,
    `sluice_service_packets_total{${web}} 20`,
    `sluice_service_packets_total{${dns}} 0`,
    `sluice_service_bytes_total{${web}} 2000`,
    `sluice_service_bytes_total{${dns}} 0`,
    `sluice_service_failed_packets_total{${dns},reason="no-endpoints"} 3`,
  ];
  assert.deepEqual(metrics(false), services);
  assert.deepEqual(metrics(true), [
    ...services,
    `sluice_endpoint_connections_total{${web},endpoint="${ONE}"} 2`,
    `sluice_endpoint_packets_total{${web},endpoint="${ONE}"} 20`,
    `sluice_endpoint_bytes_total{${web},endpoint="${ONE}"} 2000`,
  ]);
});

Deno.test("what the mode does not count is absent, and has no metric", () => {
  const { recorder, metrics } = recording({ kinds: ["connections"], failures: ["no-endpoints"] });
  recorder.note(IPv4, reading([[WEB, ONE, 2, 0, 0]], [{ port: DNS, reason: "no-endpoints", packets: 3 }]));
  assert.deepEqual(recorder.ofPort(IPv4, WEB), { connections: 2, perSecond: { connections: 0 }, failures: {} });
  assert.deepEqual(recorder.ofEndpoint(IPv4, WEB, ONE), { connections: 2, perSecond: { connections: 0 } });
  assert.deepEqual(
    new Set(metrics(true).map((line) => line.slice(0, line.indexOf("{")))),
    new Set([
      "sluice_service_connections_total",
      "sluice_service_failed_packets_total",
      "sluice_endpoint_connections_total",
    ]),
  );
  const withoutFailures = recording({ kinds: ["connections", "packets", "bytes"], failures: [] });
  withoutFailures.recorder.note(IPv4, reading([[WEB, ONE, 2, 20, 2000]]));
  assert.equal(withoutFailures.recorder.ofPort(IPv4, WEB).failures, undefined);
  assert.ok(!withoutFailures.metrics(false).some((line) => line.includes("failed")));
});

Deno.test("a service port begins with no traffic, also in the place of a deleted one", () => {
  const { recorder } = recording();
  recorder.note(IPv4, reading([[WEB, ONE, 5, 50, 5_000]]));
  recorder.forget(IPv4, [WEB]);
  recorder.note(IPv4, reading([[DNS, "10.1.0.3:53", 1, 2, 200]]));
  const { connections, packets, bytes } = recorder.ofPort(IPv4, DNS);
  assert.deepEqual([connections, packets, bytes], [1, 2, 200]);
  assert.equal(recorder.ofEndpoint(IPv4, DNS, "10.1.0.3:53").connections, 1);
});
