import { eventText } from "../control/mod.ts";
import type { Feed, FeedEvent } from "../../observe/mod.ts";
import { timeOfDay } from "../../platform/mod.ts";
import { type Html, html } from "./html.ts";

/** The number of events on the page. */
const SHOWN = 100;

/** The last events, the newest first. */
export function eventsPart({ events }: Feed): Html {
  if (events.length === 0) return html`<p class="quiet">Nothing has happened yet.</p>`;
  return html`<ol class="events">${events.slice(-SHOWN).reverse().map(eventRow)}</ol>`;
}

function eventRow(event: FeedEvent): Html {
  const { atMs, subject, family, tone } = event;
  const isOpen = event.effect === "waiting";
  return html`
    <li
      class="${tone}${isOpen && " waiting"}"><span class="at">${timeOfDay(
        atMs,
      )}</span><span><b>${subject}</b>${family !== undefined && html`
        <span class="family-tag">${family}</span>
      `} ${eventText(event)}</span></li>
  `;
}
