import { MODE_DESCRIPTIONS } from "../backends/mod.ts";
import type { SyncReport } from "../core/model/mod.ts";

/** The wording of the figures, of every mode, that count changes in the kernel. */
const WRITTEN: ReadonlyMap<string, string> = new Map(
  MODE_DESCRIPTIONS.flatMap(({ figures }) =>
    Object.entries(figures).flatMap(([figure, { written }]) =>
      written === undefined ? [] : [[figure, written] as const]
    )
  ),
);

/** The size of a sync's change in the kernel: the number of chains, elements or servers, in total and of each kind. */
export interface SyncSize {
  readonly total: number;
  /** `3 chains written`, for each count that is not 0. */
  readonly parts: readonly string[];
}

/** The size of a sync, from its figures. */
export function sizeOfSync({ figures }: Pick<SyncReport, "figures">): SyncSize {
  const written = [...WRITTEN].flatMap(([figure, name]) => {
    const count = figures[figure] ?? 0;
    return count > 0 ? [{ count, name }] : [];
  });
  return {
    total: written.reduce((sum, { count }) => sum + count, 0),
    parts: written.map(({ count, name }) => `${count} ${name}`),
  };
}
