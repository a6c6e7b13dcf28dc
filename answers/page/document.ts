import { timeOfDay } from "../../platform/mod.ts";
import type { ProxyStatus } from "../control/mod.ts";
import { type Html, html, literally } from "./html.ts";
import { LIVE_SCRIPT } from "./script.ts";
import { STYLE } from "./style.ts";
import type { View } from "./view.ts";

/** The parts of the page that change, by name. */
export interface Parts {
  readonly summary: Html;
  readonly families: Html;
  readonly problems: Html;
  readonly services: Html;
}

/**
 * The whole page. With JavaScript its parts stay up to date; without, they show the state at the time of the request.
 */
export function pageDocument(status: ProxyStatus, parts: Parts, view: View): Html {
  const { node, mode, version, source } = status;
  return html`
    <!DOCTYPE html>
    <html lang="en">
      <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <title>${node} · Sluice</title>
        <link rel="icon" href="${ICON}">
        <style>${literally(STYLE)}</style>
      </head>
      <body data-stamp="${status.stamp}">
        <header class="top">
          <div class="brand">${literally(LOGO)}<h1>${node}</h1></div>
          <p class="what">Sluice ${version} · ${mode} mode · from ${source}</p>
          <p id="connection" class="connection" role="status">as of ${timeOfDay(
            status.atMs,
          )} UTC, reload to update</p>
        </header>
        <main>
          <section class="card summary" data-part="summary" aria-label="Summary">${parts.summary}</section>
          <section class="families" data-part="families" aria-label="IP families">${parts.families}</section>
          <section class="card" data-part="problems" aria-label="Problems">${parts.problems}</section>
          <section class="card" aria-label="Services">
            <div class="bar">
              <h2>Services</h2>
              <form method="get" action="/"
                role="search"><label><span>Search</span><input type="search" name="q" value="${view.search}"
        placeholder="namespace/name" autocomplete="off" spellcheck="false" maxlength="200"></label>
        <label class="check"><input type="checkbox" name="show" value="attention"${view.attention &&
          literally(" checked")}> broken</label>
        <button type="submit">Search</button></form>
            </div>
            <div data-part="services">${parts.services}</div>
          </section>
        </main>
        <footer><a href="/metrics">metrics</a> <a href="/configz">configuration</a> <a href="/healthz">health</a> <a
        href="/proxyMode">mode</a></footer>
        <script>${literally(LIVE_SCRIPT)}</script>
      </body>
    </html>
  `;
}

const MARK = "<path d='M4 9h24' stroke-width='3'/><path d='M9 9v15M16 9v9M23 9v15' stroke-width='3'/>" +
  "<path d='M4 26c3-2.5 5-2.5 8 0s5 2.5 8 0 5-2.5 8 0' stroke-width='2.5'/>";

/** The logo: a gate over water. */
const LOGO = `<svg class='logo' viewBox='0 0 32 32' fill='none' stroke='currentColor' stroke-linecap='round' ` +
  `aria-hidden='true'>${MARK}</svg>`;

const ICON = "data:image/svg+xml," + encodeURIComponent(
  `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32' fill='none' stroke='#0d8075' stroke-linecap='round'>` +
    `${MARK}</svg>`,
);
