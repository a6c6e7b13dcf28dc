import { durationText } from "../../platform/mod.ts";
import type { FeedEvent } from "../../observe/mod.ts";

/** What happened, and whether it is in effect: `2 → 0 endpoints, in effect after 12 ms`. */
export function eventText(event: Pick<FeedEvent, "text" | "effect" | "tookMs">): string {
  const effect = effectText(event);
  return effect === undefined ? event.text : `${event.text}, ${effect}`;
}

function effectText({ effect, tookMs }: Pick<FeedEvent, "effect" | "tookMs">): string | undefined {
  switch (effect) {
    case "waiting":
      return "not in effect yet";
    case "in effect":
      return `in effect after ${durationText(tookMs ?? 0)}`;
    case "refused":
      return "refused by the kernel";
    case "overtaken":
      return "overtaken by a later change";
    case undefined:
      return undefined;
  }
}
