import assert from "node:assert/strict";
import { explain, readQuestion } from "../../../answers/mod.ts";
import { compareWithKernel } from "../../../backends/dry_run/mod.ts";
import { backendTools, describeMode, loadBackend, type Mode, MODE_DESCRIPTIONS, MODES } from "../../../backends/mod.ts";
import type { ModeDescription } from "../../../backends/contract/mod.ts";
import { judgeTraces } from "../../../backends/preflight/conflicts.ts";
import { findTraces } from "../../../backends/traces.ts";
import { checkKernel, checkTools } from "../../../backends/preflight/mod.ts";
import { explanationText } from "../../../cli/text/mod.ts";
import { familySettings } from "../../../config/mod.ts";
import type { SyncReport } from "../../../core/model/mod.ts";
import { createMetrics } from "../../../observe/mod.ts";
import { silentLogger } from "../../../platform/mod.ts";
import { permissionsOf } from "../../../sources/preflight/mod.ts";
import { createMessageCheck } from "../../../workers/checked_message.ts";
import { checkedReport } from "../../../workers/supervise.ts";
import { fakeAnswerBasis, HERE } from "../../fakes/answer_basis.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { NOTHING_COUNTED } from "../../fakes/metric_sources.ts";
import { node, service } from "../../fakes/cluster_objects.ts";
import { fakeServicePort, fakeSettings } from "../../fakes/service_port.ts";
import { createToyKernel, TOY_MODE } from "../../fakes/toy_mode/mod.ts";
import { accepted } from "../config/parse.ts";

const modes: readonly Mode[] = [...MODES, TOY_MODE];
const descriptions = modes.map(({ description }) => description);
const toy = describeMode("toy", modes);
const clock = createFakeClock();
const DELTA = {
  revision: 1,
  base: undefined,
  settings: fakeSettings({ mode: "toy" }),
  set: [fakeServicePort("default/web")],
  deleted: [],
};

function reportOf(counts: SyncReport["counts"]): SyncReport {
  return { family: "IPv4", revision: 1, ok: true, full: true, endedAtMs: 0, durationMs: 1, problems: [], counts };
}

Deno.test("a mode of one folder and one registry entry can be configured, and determines its settings", () => {
  const { configuration } = accepted(["--proxy-mode=toy", "--iptables-sync-period=7s"], { modes: descriptions });
  assert.deepEqual([configuration.mode, configuration.syncPeriodMs], ["toy", 7_000]);
  assert.deepEqual(configuration.nodePortAddresses, ["primary"]);
  const node = {
    nodeIPs: { IPv4: "192.0.2.1", IPv6: "::1" },
    podCIDRs: {},
    zone: undefined,
  } as unknown as Parameters<typeof familySettings>[2];
  for (const nodePortAddresses of ["primary", "all", "localhost"]) {
    const args = ["--proxy-mode=toy", `--nodeport-addresses=${nodePortAddresses}`];
    const given = accepted(args, { modes: descriptions }).configuration;
    const settings = familySettings("IPv4", given, node, { IPv4: ["10.96.0.0/16"], IPv6: [] });
    assert.deepEqual([settings.mode, settings.serviceRanges, settings.localhostNodePorts], ["toy", [], false]);
  }
});

Deno.test("tools, permissions and traces of a mode follow from its description", async () => {
  assert.ok(backendTools(modes).includes("toyctl-save"));
  assert.deepEqual(
    [...new Set(permissionsOf(toy.kinds).map(({ resource }) => resource))].filter((resource) =>
      !/events/.test(resource)
    ),
    ["services"],
  );
  const runner = {
    run({ tool, onLine }: { readonly tool: string; readonly onLine?: (line: string) => void }) {
      if (tool === "toyctl-save") onLine?.("toy default/web");
      return Promise.resolve({ exitCode: 0, stdout: tool === "toyctl" ? "toyctl 4.2" : "", stderr: "" });
    },
  };
  assert.equal((await checkTools(toy, runner))[0]!.message, "toyctl 4.2");
  assert.equal((await checkKernel(TOY_MODE, undefined, runner))[0]!.verdict, "green");
  const [found] = judgeTraces(await findTraces(descriptions, runner), "toy", undefined);
  assert.match(found!.message, /^found toy rules \(mode toy, 1 of them\); .*takes them over/);
});

Deno.test("a mode's backend is loaded, takes over from other modes, and its counts become metrics", async () => {
  const kernel = createToyKernel();
  const options = { family: "IPv4", runner: kernel, clock, logger: silentLogger } as const;
  const backend = await loadBackend("toy", options, modes);
  const { counts } = await backend.sync(DELTA);
  assert.deepEqual(kernel.rules, ["default/web"]);
  assert.deepEqual(counts, { toy_rules_written: 1, cleanup_failures: 0 });
  const metrics = createMetrics({ ...NOTHING_COUNTED, mode: toy });
  metrics.observe(reportOf(counts));
  assert.match(await metrics.expose(), /^kubeproxy_toy_rules_written_total\{ip_family="IPv4"\} 1$/m);
  await (await loadBackend("nftables", options, modes)).cleanup();
  assert.deepEqual(kernel.rules, [], "another mode removes its traces");
});

Deno.test("a report keeps only the counts that its mode declares", () => {
  const given = { toy_rules_written: 2, drift_repaired: 1, elements_written: 3, conntrack_ms: Number.NaN };
  assert.deepEqual(checkedReport(reportOf(given), toy).counts, { toy_rules_written: 2, drift_repaired: 1 });
});

Deno.test("messages to a worker may name a mode of the registry, and no other", () => {
  const checked = createMessageCheck(descriptions);
  const start = { type: "start", family: "IPv4", mode: "toy", logLevel: "info", logFormat: "json", kernel: [] };
  assert.equal(checked({ ...start, ipvs: undefined }).type, "start");
  assert.equal(checked({ type: "sync", delta: DELTA }).type, "sync");
  assert.throws(() => checked({ ...start, mode: "tox" }), /invalid field "mode"/);
  assert.throws(() => createMessageCheck(MODE_DESCRIPTIONS)({ type: "sync", delta: DELTA }), /invalid field "delta"/);
});

Deno.test("explain follows from a mode's description", async () => {
  const asked = (mode: ModeDescription) =>
    explain(
      readQuestion("192.0.2.1:80", "node"),
      fakeAnswerBasis([node(HERE), service("default/web", { type: "LoadBalancer", loadBalancerIPs: ["192.0.2.1"] })], {
        settings: DELTA.settings,
        mode,
      }),
    );
  const text = explanationText(await asked(toy), false);
  assert.match(text, /, toy mode\)$/m);
  assert.match(text, /passes untouched: no usable endpoint, but toy mode does not refuse this node's own traffic$/m);
  const refusing = { ...toy, traffic: { ...toy.traffic, refusesOwnTraffic: true } } as ModeDescription;
  assert.deepEqual((await asked(refusing)).outcomes.map(({ fate }) => fate), ["rejected"]);
});

Deno.test("diff runs a mode's tools where its description says that they only read", async () => {
  const kernel = createToyKernel();
  await kernel.run({ tool: "toyctl", args: ["set", "default/old"] });
  const compare = () => compareWithKernel({ family: "IPv4", state: DELTA, clock, modes }, kernel);
  assert.deepEqual(await compare(), [{
    place: "toy rules",
    what: "differs",
    lines: [{ sign: "-", text: "default/old" }, { sign: "+", text: "default/web" }],
  }]);
  assert.deepEqual(kernel.rules, ["default/old"], "diff changes nothing");
  await kernel.run({ tool: "toyctl", args: ["set", "default/web"] });
  assert.deepEqual(await compare(), []);
});

Deno.test("modes have distinct names, metrics and traces", () => {
  assert.deepEqual(MODE_DESCRIPTIONS.map(({ name }) => name), ["iptables", "nftables", "ipvs", "userspace"]);
  assert.throws(() => describeMode("toy"), /there is no mode "toy"/);
  for (const { counts } of MODE_DESCRIPTIONS) {
    const names = Object.values(counts).flatMap(({ metrics = [] }) =>
      metrics.map(({ name, table }) => `${name} ${table}`)
    );
    assert.equal(new Set(names).size, names.length);
  }
});

Deno.test("no two modes claim the same traces, so that none is removed or reported twice", () => {
  const calls = MODE_DESCRIPTIONS.flatMap(({ traces }) => traces.calls.map((call) => JSON.stringify(call)));
  assert.deepEqual(calls.filter((call, i) => calls.indexOf(call) !== i), []);
});

Deno.test("modes whose rules lead to endpoints reset connections to those that are gone, and count the packets", async () => {
  for (const mode of MODE_DESCRIPTIONS) {
    const isResetting = mode.name === "iptables" || mode.name === "nftables";
    assert.equal(mode.settings.resetsConnections, isResetting || undefined, mode.name);
    if (!isResetting) continue;
    const metrics = createMetrics({ ...NOTHING_COUNTED, mode });
    metrics.observe(reportOf({ connections_reset: 2 }));
    assert.match(await metrics.expose(), /^sluice_connections_reset_total\{ip_family="IPv4"\} 2$/m);
  }
});
