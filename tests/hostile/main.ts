/**
 * Everything that `sluice serve` reads, hostile in many ways:
 *
 *     deno task test:hostile [--gate] [--list] [PART OF A NAME]…
 *
 * Runs the executable at SLUICE_BINARY, or the source.
 */
import { attempt, runScenarios } from "../scenario_runner.ts";
import type { Result } from "../suite.ts";
import { ISOLATED_PROGRAMS } from "../../demo/isolate.ts";
import { apiScenarios } from "./api.ts";
import { fileScenarios } from "./files.ts";
import { grpcScenarios } from "./grpc.ts";
import { runHostile } from "./scenario.ts";

Deno.exit(
  await runScenarios({
    name: "hostile",
    self: import.meta.url,
    programs: ISOLATED_PROGRAMS,
    scenarios: [...apiScenarios, ...grpcScenarios, ...fileScenarios],
    async run(scenarios) {
      const results: Result[] = [];
      for (const scenario of scenarios) {
        console.log(scenario.name);
        results.push(await attempt(scenario.name, () => runHostile(scenario)));
      }
      return results;
    },
  }),
);
