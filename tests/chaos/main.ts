/**
 * Injects faults into Sluice while it serves a cluster of network namespaces:
 *
 *     deno task test:chaos [--gate] [--long] [--list] [PART OF A NAME]…
 *
 * Runs the executable at SLUICE_BINARY, or the source. Prints the measurements of each scenario. CHAOS_SEED is the seed of all random
 * choices, LAB_PATIENCE the factor of all timeouts.
 */
import { existsSync } from "node:fs";
import { ISOLATED_PROGRAMS } from "../../demo/isolate.ts";
import { attempt, runScenarios } from "../scenario_runner.ts";
import { randomOf } from "../seed.ts";
import type { Result } from "../suite.ts";
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

const LONG = "--long";

function leftOut({ onlyLong, needs }: Scenario, options: ReadonlySet<string>): string | undefined {
  if (onlyLong && !options.has(LONG)) return "it takes long: use --long";
  if (needs === "IPVS" && !existsSync("/proc/net/ip_vs")) {
    return "this kernel has no IPVS: use deno task test:ipvs --model";
  }
  if (needs === "executable" && !Deno.env.get("SLUICE_BINARY")) {
    return "it measures the executable, which has other memory limits than the source: set SLUICE_BINARY to it";
  }
}

Deno.exit(
  await runScenarios({
    name: "chaos",
    self: import.meta.url,
    programs: PROGRAMS,
    scenarios: SCENARIOS,
    options: { [LONG]: "about an hour of faults instead of some minutes" },
    leftOut,
    async run(scenarios, { seed, options }) {
      const results: Result[] = [];
      for (const { name, run } of scenarios) {
        console.log(`\n${name}`);
        const result = await attempt(name, async () => {
          const counts = await run({ long: options.has(LONG), seed, random: randomOf(seed, name) });
          for (const [count, value] of Object.entries(counts)) console.log(`  ${count.padEnd(50)} ${value}`);
        });
        console.log(`  (${(result.tookMs / 1000).toFixed(1)} s)`);
        results.push(result);
      }
      return results;
    },
  }),
);
