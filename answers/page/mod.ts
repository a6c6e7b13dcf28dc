/**
 * The status page: what a running proxy does, for people. Made on the server as a whole, so that it is read without
 * JavaScript too; with it, the same parts are asked for every second and put in place where they changed.
 *
 *   view.ts        what is shown of the services: the page's address
 *   html.ts        templates in which everything from elsewhere is text
 *   document.ts    the page; style.ts and script.ts are what it embeds
 *   summary.ts, families.ts, sync_chart.ts, problems.ts, services.ts   its parts
 *
 * Nothing of this is loaded before the page is first requested.
 */
export { createStatusPage } from "./status_page.ts";
