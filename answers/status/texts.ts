import { MODE_DESCRIPTIONS } from "../../backends/mod.ts";
import type { FeedEvent, SyncSummary } from "../../observe/mod.ts";
import { durationText, plural } from "../../platform/mod.ts";

/** The wording of all counts, in every mode, that count changes in the kernel. */
const WRITTEN: ReadonlyMap<string, string> = new Map(
  MODE_DESCRIPTIONS.flatMap(({ counts }) =>
    Object.entries(counts).flatMap(([key, { written }]) => written === undefined ? [] : [[key, written] as const])
  ),
);

/** The size of a sync's change in the kernel: the number of chains, elements or servers, in total and of each kind. */
interface SyncSize {
  readonly total: number;
  /** `3 chains written`, for each count that is not 0. */
  readonly parts: readonly string[];
}

/** The size of a sync, from its counts. */
export function sizeOfSync({ counts }: Pick<SyncSummary, "counts">): SyncSize {
  const written = [...WRITTEN].flatMap(([key, name]) => {
    const count = counts[key] ?? 0;
    return count > 0 ? [{ count, name }] : [];
  });
  return {
    total: written.reduce((sum, { count }) => sum + count, 0),
    parts: written.map(({ count, name }) => `${count} ${name}`),
  };
}

/** The duration and size of a sync: `12 ms, 3 changes`. */
export function syncText(sync: SyncSummary): string {
  const { total } = sizeOfSync(sync);
  return `${durationText(sync.durationMs)}, ${total === 0 ? "nothing to write" : plural(total, "change")}`;
}

const EFFECTS: Readonly<Record<NonNullable<FeedEvent["effect"]>, string>> = {
  "waiting": "not in effect yet",
  "in effect": "in effect after ",
  "refused": "refused by the kernel",
  "overtaken": "overtaken by a later change",
};

/** The change, and whether it is in effect: `2 → 0 endpoints, in effect after 12 ms`. */
export function eventText(
  { text, detail, effect, tookMs }: Pick<FeedEvent, "text" | "detail" | "effect" | "tookMs">,
): string {
  if (effect === undefined) return detail === undefined ? text : `${text}: ${detail}`;
  return `${text}, ${EFFECTS[effect]}${effect === "in effect" ? durationText(tookMs ?? 0) : ""}`;
}
