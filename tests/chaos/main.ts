/**
 * Injects faults into Sluice while it serves a cluster of network namespaces:
 *
 *     deno task test:chaos [--long] [PART OF A NAME]…
 *
 * Runs the executable at SLUICE_BINARY, or the source. Prints the figures of each scenario, and ends with
 * `N passed, N failed`.
 */
import { ISOLATED_PROGRAMS } from "../../demo/isolate.ts";
import { systemClock } from "../../platform/clock.ts";
import { errorText } from "../../platform/log.ts";
import { runIsolated } from "../isolated.ts";
import { api } from "./api.ts";
import { apiCredentials } from "./api_credentials.ts";
import { apiFailover } from "./api_failover.ts";
import { apiSilence } from "./api_silence.ts";
import { apiSlow } from "./api_slow.ts";
import { crash } from "./crash.ts";
import { goneEndpoints } from "./gone_endpoints.ts";
import { longRun } from "./long_run.ts";
import { missingTools } from "./missing_tools.ts";
import { model } from "./model/mod.ts";
import { drift } from "./drift.ts";
import { outsideConnections } from "./outside_connections.ts";
import { overload } from "./overload.ts";
import { reboot } from "./reboot.ts";
import { rebootPods } from "./reboot_pods.ts";
import type { Scenario } from "./scenario.ts";
import { tools } from "./tools.ts";

const SCENARIOS: readonly Scenario[] = [
  ...overload,
  ...outsideConnections,
  ...crash,
  ...tools,
  ...missingTools,
  ...api,
  ...apiSlow,
  ...apiSilence,
  ...apiCredentials,
  ...apiFailover,
  ...reboot,
  ...rebootPods,
  ...drift,
  ...model,
  ...goneEndpoints,
  ...longRun,
];

/** Sluice and the helper programs that the lab starts; their packages are fetched before the network is cut off. */
const PROGRAMS = [
  ...ISOLATED_PROGRAMS,
  "tests/chaos/traffic.ts",
  "tests/chaos/state_writer.ts",
  "tests/chaos/tls_proxy.ts",
];

async function inside(args: readonly string[]): Promise<number> {
  const long = args.includes("--long");
  const wanted = args.filter((arg) => !arg.startsWith("--"));
  const hasIPVS = await Deno.stat("/proc/net/ip_vs").then(() => true, () => false);
  const named = SCENARIOS.filter(({ name }) => wanted.length === 0 || wanted.some((part) => name.includes(part)));
  const chosen = named.filter(({ onlyLong, needsIPVS }) => (long || !onlyLong) && (hasIPVS || !needsIPVS));
  for (const { name } of named.filter(({ needsIPVS }) => needsIPVS && !hasIPVS)) {
    console.log(`skipped, this kernel has no IPVS (use deno task test:ipvs --model): ${name}`);
  }
  let passed = 0;
  const failures: string[] = [];
  for (const { name, run } of chosen) {
    console.log(`\n${name}`);
    const startedMs = systemClock.monotonic();
    try {
      const figures = await run({ long });
      passed++;
      for (const [figure, value] of Object.entries(figures)) console.log(`  ${figure.padEnd(50)} ${value}`);
    } catch (error) {
      failures.push(name);
      console.log(`  FAILED: ${errorText(error)}`);
    }
    console.log(`  (${((systemClock.monotonic() - startedMs) / 1000).toFixed(1)} s)`);
  }
  for (const name of failures) console.log(`failed: ${name}`);
  console.log(`\n${passed} passed, ${failures.length} failed`);
  return failures.length === 0 ? 0 : 1;
}

Deno.exit(await runIsolated(import.meta.url, inside, PROGRAMS));
