import type { Backend } from "../../../backends/contract/mod.ts";
import type { FamilyDelta } from "../../../core/model/mod.ts";
import { TOY_RULES, type ToyFigure } from "./mode.ts";

function createToyBackend(): Backend<ToyFigure> {
  return {
    setup: () => Promise.resolve(),
    sync({ set }: FamilyDelta) {
      TOY_RULES.push(...set.map(({ name }) => name));
      return Promise.resolve({ problems: [], figures: { toy_rules_written: set.length } });
    },
    resync: () => Promise.resolve({ problems: [], figures: {} }),
    cleanup: () => Promise.resolve(),
  };
}

/** The code of toy mode, as the registry loads it. */
export const TOY_CODE = {
  create: createToyBackend,
  examine: () => Promise.resolve(),
  removeTraces: () => Promise.resolve(void TOY_RULES.splice(0)),
};
