/**
 * The status page of a running proxy. The server renders all of it, so it works without JavaScript; with JavaScript, the
 * page requests the same parts every second and replaces those that changed.
 *
 *   view.ts        the selection of services, as in the page's address
 *   html.ts        templates that escape every value
 *   document.ts    the page; style.ts and script.ts are what it embeds
 *   summary.ts, problems.ts, families.ts, sync_chart.ts, events.ts, services.ts, explanation.ts   its parts
 *
 * None of this is loaded before the page is first requested.
 */
export { createStatusPage } from "./status_page.ts";
