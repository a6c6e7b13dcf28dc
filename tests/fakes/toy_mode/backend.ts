import type { Backend, BackendOptions } from "../../../backends/contract/mod.ts";
import type { FamilyDelta } from "../../../core/model/mod.ts";
import type { ToyCount } from "./mode.ts";

function createToyBackend({ runner }: BackendOptions): Backend<ToyCount> {
  return {
    setup: () => Promise.resolve(),
    async sync({ set }: FamilyDelta) {
      const held = (await runner.run({ tool: "toyctl", args: ["list"] })).stdout.split("\n").filter(Boolean);
      const wanted = set.map(({ name }) => name);
      const added = wanted.filter((name) => !held.includes(name));
      const removed = held.filter((name) => !wanted.includes(name));
      await runner.run({
        tool: "toyctl",
        args: ["set", ...wanted],
        changes: () => [{ kind: "members", place: "toy rules", removed, added }],
      });
      return { problems: [], counts: { toy_rules_written: added.length } };
    },
    resync: () => Promise.resolve({ problems: [], counts: {} }),
    cleanup: () => Promise.resolve(),
  };
}

/** The code of toy mode, as the registry loads it. */
export const TOY_CODE = {
  create: createToyBackend,
  examine: () => Promise.resolve(),
  removeTraces: async ({ runner }: BackendOptions) => void await runner.run({ tool: "toyctl", args: ["set"] }),
};
