import { timeOfDay } from "../../platform/mod.ts";
import { type Html, html } from "./html.ts";

/** A point in time: the time of day in UTC, which the page's script replaces with its age. */
export function moment(atMs: number): Html {
  return html`<time datetime="${new Date(atMs).toISOString()}">${timeOfDay(atMs)} UTC</time>`;
}
