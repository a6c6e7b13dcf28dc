import type { FeedEvent } from "../../observe/mod.ts";
import { durationText } from "../../platform/mod.ts";

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
