import type { Node, RunningFeature } from "../../../features/contract.ts";
import { counter } from "../../../platform/metrics/mod.ts";
import type { Family } from "../../../platform/mod.ts";
import { greet } from "./calls.ts";

/** Counts syncs, and has the workers greet their families. */
export function start(
  { families, reportProblems }: Node,
  { toy: { greeting } }: { readonly toy: { readonly greeting: string } },
): Promise<RunningFeature> {
  let count = () => {};
  if (greeting === "go away") {
    reportProblems("toy", [{ code: "toy-unfriendly", subject: "IPv4", detail: `the greeting is ${greeting}` }]);
  }
  const greeted = new Map<Family, string>();
  for (const { family, call } of families) {
    call(greet, { greeting }).then((answer) => answer && greeted.set(family, answer.words));
  }
  return Promise.resolve({
    addMetrics(registry) {
      const greetings = counter(registry, "sluice_toy_greetings_total", "Greetings");
      count = () => greetings.inc({});
    },
    reported: () => count(),
    status: () => ({ label: "Toy", tone: "good", words: `says ${greeting}`, reason: undefined, data: { greeting } }),
    familyStatus: (family) => (
      {
        ...{ label: "Toy", tone: "good", reason: undefined, data: { greeting } },
        words: greeted.get(family) ?? "no greeting",
      }
    ),
  });
}
