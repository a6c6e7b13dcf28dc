import type { Node, RunningFeature } from "../../../features/contract.ts";
import { metricMaker } from "../../../platform/metrics/mod.ts";

/** Counts syncs, and greets. */
export function start(
  { reportProblems }: Node,
  { toy: { greeting } }: { readonly toy: { readonly greeting: string } },
): Promise<RunningFeature> {
  let count = () => {};
  if (greeting === "go away") {
    reportProblems("toy", [{ code: "toy-unfriendly", subject: "IPv4", detail: `the greeting is ${greeting}` }]);
  }
  return Promise.resolve({
    addMetrics(registry) {
      const greetings = metricMaker(registry, "sluice_toy_").counter("greetings_total", "Greetings");
      count = () => greetings.inc({});
    },
    reported: () => count(),
    familyStatus: (family) => (
      { label: "Toy", tone: "good", words: `${greeting}, ${family}`, reason: undefined, data: { greeting } }
    ),
  });
}
