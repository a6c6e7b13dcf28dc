import { eventText } from "../../answers/control/mod.ts";
import type { FeedEvent } from "../../observe/mod.ts";
import { timeOfDay } from "../../platform/mod.ts";
import { type Layout, textOf } from "./lines.ts";

/** An event as a line: `14:03:07 shop/cart: 2 → 0 endpoints, in effect after 12 ms`. The time is in UTC. */
export function eventLine(event: FeedEvent, layout: Pick<Layout, "columns" | "colour">): string {
  const { atMs, subject, family, tone } = event;
  const about = family === undefined ? subject : `${subject} (${family})`;
  return textOf([["soft", timeOfDay(atMs)], " ", ["bold", about], ": ", [tone, eventText(event)]], layout);
}
