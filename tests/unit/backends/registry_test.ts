import assert from "node:assert/strict";
import { backendTools, describeMode, loadBackend, type Mode, MODE_DESCRIPTIONS, MODES } from "../../../backends/mod.ts";
import { findTraces, judgeTraces } from "../../../backends/preflight/conflicts.ts";
import { findTools, judgeTools } from "../../../backends/preflight/tools.ts";
import { tryKernel } from "../../../backends/preflight/kernel.ts";
import { familySettings } from "../../../config/mod.ts";
import type { SyncReport } from "../../../core/model/mod.ts";
import { createMetrics } from "../../../observe/mod.ts";
import { silentLogger } from "../../../platform/mod.ts";
import { permissionsOf } from "../../../sources/preflight/api.ts";
import { checkedReport } from "../../../workers/checked_message.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { createFakeRunner } from "../../fakes/runner.ts";
import { fakeServicePort, fakeSettings } from "../../fakes/service_port.ts";
import { TOY_MODE, TOY_RULES } from "../../fakes/toy_mode/mod.ts";
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

function reportOf(figures: SyncReport["figures"]): SyncReport {
  return { family: "IPv4", revision: 1, ok: true, full: true, endedAtMs: 0, durationMs: 1, problems: [], figures };
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
  const settings = familySettings("IPv4", configuration, node, { IPv4: ["10.96.0.0/16"], IPv6: [] });
  assert.deepEqual([settings.mode, settings.serviceRanges, settings.localhostNodePorts], ["toy", [], false]);
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
  assert.equal(judgeTools(toy, await findTools(toy, runner))[0]!.message, "toyctl 4.2");
  assert.deepEqual((await tryKernel(TOY_MODE, undefined, runner)).map(({ failure }) => failure), [
    undefined,
    undefined,
  ]);
  const [found] = judgeTraces(await findTraces(descriptions, runner), "toy", undefined);
  assert.match(found!.message, /^toy rules \(mode toy, 1 of them\) .* taken over/);
});

Deno.test("a mode's backend is loaded, takes over from other modes, and its figures become metrics", async () => {
  const options = { family: "IPv4", runner: createFakeRunner(), clock, logger: silentLogger } as const;
  const backend = await loadBackend("toy", options, modes);
  const { figures } = await backend.sync(DELTA);
  assert.deepEqual(TOY_RULES, ["default/web"]);
  assert.deepEqual(figures, { toy_rules_written: 1, cleanup_failures: 0 });
  const metrics = createMetrics({
    mode: toy,
    now: () => 0,
    read: () => ({
      serviceChangesPending: 0,
      serviceChangesTotal: 0,
      endpointChangesPending: 0,
      endpointChangesTotal: 0,
      families: {},
    }),
    featureGates: {},
    readPacketCounts: () => Promise.resolve({}),
    readProblems: () => new Map(),
  });
  metrics.observe(reportOf(figures));
  assert.match(await metrics.expose(), /^kubeproxy_toy_rules_written_total\{ip_family="IPv4"\} 1$/m);
  await (await loadBackend("nftables", options, modes)).cleanup();
  assert.deepEqual(TOY_RULES, [], "another mode removes its traces");
});

Deno.test("a report keeps only the figures that its mode declares", () => {
  const given = { toy_rules_written: 2, drift_repaired: 1, elements_written: 3, conntrack_ms: Number.NaN };
  assert.deepEqual(checkedReport(reportOf(given), toy).figures, { toy_rules_written: 2, drift_repaired: 1 });
});

Deno.test("modes have distinct names, metrics and traces", () => {
  assert.deepEqual(MODE_DESCRIPTIONS.map(({ name }) => name), ["iptables", "nftables", "ipvs"]);
  assert.throws(() => describeMode("toy"), /there is no mode "toy"/);
  for (const { figures } of MODE_DESCRIPTIONS) {
    const names = Object.values(figures).flatMap(({ metrics = [] }) =>
      metrics.map(({ name, table }) => `${name} ${table}`)
    );
    assert.equal(new Set(names).size, names.length);
  }
});
