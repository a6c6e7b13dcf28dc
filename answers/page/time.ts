import { timeOfDay } from "../../platform/mod.ts";
import { type Html, html } from "./html.ts";

/** A moment: the time of day in UTC, or with JavaScript how long ago that is. */
export function moment(atMs: number): Html {
  return html`<time datetime="${new Date(atMs).toISOString()}">${timeOfDay(atMs)} UTC</time>`;
}
