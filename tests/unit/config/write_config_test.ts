import assert from "node:assert/strict";
import fc from "fast-check";
import { documentOf, writeDocument } from "../../../config/mod.ts";
import { accepted, beyondEffect, HEADER, parse } from "./parse.ts";
import { runs } from "../../property/runs.ts";

const text = fc.string({ minLength: 1, maxLength: 8 });
const words = fc.constantFrom("yes", "null", "1", "~", "on", "0x1f", "1:30", "a: b", "# no", "é", "2001-01-01");
const duration = fc.oneof(
  fc.integer({ min: 1, max: 3_600_000_000 }).map((us) => `${us}us`),
  fc.constantFrom("1h2m3s", "1.5s", "300ms", "25h"),
);
const optional = <T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }) => fc.record(model, { requiredKeys: [] });

const document = optional({
  featureGates: fc.dictionary(fc.stringMatching(/^[A-Z][a-z]{1,5}$/), fc.boolean()),
  clientConnection: optional({
    kubeconfig: fc.oneof(text, words),
    contentType: text,
    qps: fc.constantFrom(0.5, 1, 50),
    burst: fc.integer({ min: 1, max: 1000 }),
  }),
  logging: fc.oneof(
    optional({ format: fc.constantFrom("text", "json"), verbosity: fc.nat(10), flushFrequency: duration }),
    optional({
      vmodule: fc.array(fc.record({ filePattern: fc.stringMatching(/^[a-z*]{1,4}$/), verbosity: fc.nat(9) })),
    }),
  ),
  hostnameOverride: words,
  bindAddress: fc.oneof(fc.ipV4(), fc.ipV6()),
  healthzBindAddress: fc.ipV4().map((ip) => `${ip}:1`),
  metricsBindAddress: fc.constantFrom("::", "[fd00::1]:9", "127.0.0.1"),
  mode: fc.constantFrom("iptables", "ipvs", "nftables", "userspace"),
  userspace: optional({ maxConnections: fc.nat(1_000_000), udpIdleTimeout: duration }),
  traffic: optional({ metrics: fc.boolean(), endpointMetrics: fc.boolean(), period: fc.constantFrom("1s", "1m") }),
  canary: optional({ enabled: fc.boolean(), addressRanges: fc.constantFrom([], ["169.254.240.0/28", "fd00:1::/64"]) }),
  iptables: optional({
    masqueradeBit: fc.nat(31),
    masqueradeAll: fc.boolean(),
    localhostNodePorts: fc.boolean(),
    syncPeriod: fc.constantFrom("1h", "90m", "24h0m0.5s"),
    minSyncPeriod: fc.constantFrom("1ns", "20s", "3ms"),
  }),
  ipvs: optional({
    scheduler: fc.constantFrom("", "rr", "wrr", "sh"),
    excludeCIDRs: fc.array(fc.ipV4().map((ip) => `${ip}/9`)),
    strictARP: fc.boolean(),
  }),
  detectLocal: optional({ bridgeInterface: words, interfaceNamePrefix: text }),
  detectLocalMode: fc.constantFrom("ClusterCIDR", "NodeCIDR"),
  clusterCIDR: fc.constantFrom("10.0.0.0/8", "fd00::/8", "fd00::1/8,10.0.0.1/8"),
  nodePortAddresses: fc.constantFrom([], ["primary"], ["localhost", "10.1.0.0/8", "fd00::/64"]),
  oomScoreAdj: fc.integer({ min: -1000, max: 1000 }),
  conntrack: optional({
    maxPerCore: fc.nat(2 ** 31 - 1),
    tcpEstablishedTimeout: duration,
    tcpBeLiberal: fc.boolean(),
    udpTimeout: duration,
  }),
  configSyncPeriod: duration,
  winkernel: optional({ networkName: words, enableDSR: fc.boolean() }),
});

Deno.test("the file from --write-config-to loads as the same configuration", async () => {
  await fc.assert(
    fc.asyncProperty(document, async (body) => {
      const json = JSON.stringify({
        apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
        kind: "KubeProxyConfiguration",
        ...body,
      });
      const { configuration } = accepted(["--config=in"], { files: { in: json } });
      const command = parse(["--config=in", "--write-config-to=out"], { files: { in: json } });
      assert(command.kind === "write-config");
      assert.equal(command.path, "out");
      const again = accepted(["--config=out", "--strict-config"], {
        files: { out: await writeDocument(command.configuration) },
      });
      assert.deepEqual(beyondEffect(again.warnings), []);
      // A default that was written is given then.
      const { forms } = configuration;
      assert.deepEqual({ ...again.configuration, forms, strictConfig: false }, configuration);
    }),
    runs(30),
  );
});

Deno.test("flags are written", async () => {
  const command = parse(["--write-config-to=out", "--oom-score-adj=3", "--iptables-min-sync-period=2s", "-v=4"]);
  assert(command.kind === "write-config");
  const { configuration } = accepted(["--config=out"], { files: { out: await writeDocument(command.configuration) } });
  assert.deepEqual([configuration.oomScoreAdj, configuration.minSyncPeriodMs, configuration.verbosity], [3, 2000, 4]);
});

Deno.test("settings that a file cannot express are warnings", () => {
  const command = parse([
    "--write-config-to=out",
    "--metrics-bind-address=",
    "--healthz-port=0",
  ]);
  assert(command.kind === "write-config");
  for (const name of ["healthzBindAddress", "metricsBindAddress"]) {
    assert(command.warnings.some((warning) => warning.startsWith(`${name}: a file cannot`)), name);
  }
});

Deno.test("the document has kube-proxy's names and formats", () => {
  const { configuration } = accepted(["--config=in"], {
    files: { in: HEADER + "clusterCIDR: fd00::/8,10.0.0.0/8\nconfigSyncPeriod: 90s\n" },
  });
  const document = documentOf(configuration);
  assert.equal(document.apiVersion, "kubeproxy.config.k8s.io/v1alpha1");
  assert.equal(document.kind, "KubeProxyConfiguration");
  assert.equal(document.clusterCIDR, "fd00::/8,10.0.0.0/8", "as given");
  assert.equal(document.configSyncPeriod, "1m30s");
  assert.deepEqual(document.conntrack, {
    maxPerCore: 32768,
    min: 131072,
    tcpEstablishedTimeout: "24h0m0s",
    tcpCloseWaitTimeout: "1h0m0s",
    tcpBeLiberal: false,
    udpTimeout: "0s",
    udpStreamTimeout: "0s",
  });
  assert(!("nodeName" in document));
});
