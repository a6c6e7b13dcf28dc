import { timeOfDay } from "../../platform/mod.ts";
import type { NodeView } from "../status/mod.ts";
import { ORIGINS } from "../mod.ts";
import { type Html, html, literally } from "./html.ts";
import { LIVE_SCRIPT } from "./script.ts";
import { STYLE } from "./style.ts";
import type { View } from "./services.ts";

/** The parts of the page that change, by name. */
export interface Parts {
  readonly summary: Html;
  readonly problems: Html;
  readonly families: Html;
  readonly events: Html;
  readonly explanation: Html;
  readonly namespaces: Html;
  readonly services: Html;
}

/** The whole page. With JavaScript its parts stay up to date; without, they show the state at the time of the request. */
export function pageDocument(status: NodeView, parts: Parts, view: View): Html {
  return html`
    <!DOCTYPE html>
    <html lang="en">
      <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <title>${status.node} · Sluice</title>
        <link rel="icon" href="${ICON}">
        <style>${literally(STYLE)}</style>
      </head>
      <body data-stamp="${status.stamp}">
    ${header(status)}
    <main>
    <section class="card summary" data-part="summary" aria-label="Summary">${parts.summary}</section>
    <section class="card trouble" data-part="problems" aria-label="Problems">${parts.problems}</section>
    <div class="overview">
    <section class="families" data-part="families" aria-label="IP families">${parts.families}</section>
    <section class="card changes" aria-label="Changes"><header><h2>Changes</h2><span class="quiet">UTC</span></header>
    <div data-part="events" tabindex="0" aria-label="The last changes">${parts.events}</div></section>
    </div>
    <section class="card" aria-label="Explain">
    <div class="bar"><h2>Explain a connection</h2>${explainForm(view)}</div>
    <div data-part="explanation">${parts.explanation}</div>
    </section>
    <section class="card" aria-label="Services">
    <div class="bar"><h2>Services</h2>${searchForm(parts, view)}</div>
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

function header({ node, atMs }: NodeView): Html {
  return html`
    <header class="top">
      <div class="brand">${literally(LOGO)}<h1>${node}</h1></div>
      <p id="connection" class="connection" role="status">as of ${timeOfDay(atMs)} UTC, reload to update</p>
    </header>
  `;
}

function searchForm({ namespaces }: Parts, { q, show, to, from }: View): Html {
  return html`<form id="search" method="get" action="/" role="search">
<label><span>Search</span><input type="search" name="q" value="${q}" placeholder="Search namespace/name"
autocomplete="off" spellcheck="false" maxlength="200"></label>
<label><span>Namespace</span><select name="ns" data-part="namespaces">${namespaces}</select></label>
<label class="check"><input type="checkbox" name="show" value="attention"${
    show !== "" && literally(" checked")
  }> needing attention</label>
${kept({ to, from })}<button type="submit">Search</button></form>`;
}

function explainForm({ to, from, q, ns, show }: View): Html {
  return html`<form id="explain" method="get" action="/">
<label><span>Destination</span><input type="search" name="to" value="${to}" placeholder="10.96.0.10:80 or namespace/name"
autocomplete="off" spellcheck="false" maxlength="200"></label>
<label><span>Client</span><input name="from" value="${from}" list="clients" placeholder="from any client"
autocomplete="off" spellcheck="false" maxlength="200"></label>
<datalist id="clients">${ORIGINS.map((origin) => html`<option value="${origin}"></option>`)}</datalist>
${kept({ q, ns, show })}<button type="submit">Explain</button></form>`;
}

/** The rest of the view, which a form keeps without JavaScript. */
function kept(fields: Readonly<Record<string, string>>): readonly Html[] {
  return Object.entries(fields).filter(([, value]) => value !== "")
    .map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`);
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
