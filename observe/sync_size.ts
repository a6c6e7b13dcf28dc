import type { SyncReport } from "../core/model/mod.ts";

/** What the backends write, by the figure that counts it. */
const WRITTEN: Readonly<Record<string, string>> = {
  chains_written: "chains written",
  chains_deleted: "chains deleted",
  elements_written: "elements written",
  elements_deleted: "elements deleted",
  server_operations: "virtual server changes",
  set_changes: "set changes",
};

/** How much a sync changed in the kernel: how many chains, elements or servers, and how many of each. */
export interface SyncSize {
  readonly total: number;
  /** `3 chains written`; only what was not none. */
  readonly parts: readonly string[];
}

/** The size of a sync, from its figures. */
export function sizeOfSync({ figures }: Pick<SyncReport, "figures">): SyncSize {
  const written = Object.entries(WRITTEN).flatMap(([figure, name]) => {
    const count = figures[figure] ?? 0;
    return count > 0 ? [{ count, name }] : [];
  });
  return {
    total: written.reduce((sum, { count }) => sum + count, 0),
    parts: written.map(({ count, name }) => `${count} ${name}`),
  };
}
