/**
 * The status page of a running proxy. The server renders all of it, so it works without JavaScript; with JavaScript, the
 * page requests the same parts every second and replaces those that changed.
 *
 *   html.ts        templates that escape every value
 *   document.ts    the page; style.ts and script.ts are what it embeds
 *   services.ts    the list of services, and the selection in the page's address
 *   explanation.ts, sync_chart.ts   further parts; the others are below
 *
 * None of this is loaded before the page is first requested.
 */
import type { ControlAnswers } from "../control/mod.ts";
import { type Attention, attentionText, NotReadyError } from "../mod.ts";
import {
  eventText,
  type FamilyView,
  headlineOf,
  type NodeView,
  type ProblemView,
  type StatusLine,
  type Words,
} from "../status/mod.ts";
import { pageDocument, type Parts } from "./document.ts";
import { explanationPart } from "./explanation.ts";
import { type Html, html, moment, row } from "./html.ts";
import { LIVE_SCRIPT } from "./script.ts";
import { addressOf, namespaceOptions, PAGE_SIZE, readView, servicesPart, type View, WHOLE } from "./services.ts";
import { STYLE } from "./style.ts";
import { syncChart } from "./sync_chart.ts";
import type { CurrentProblem } from "../../core/problems/mod.ts";
import type { Feed, FeedEvent, StatusPage } from "../../observe/mod.ts";
import { countText, DOCUMENTATION, timeOfDay } from "../../platform/mod.ts";

/** The answers that the page is rendered from. */
export type PageAnswers = Pick<ControlAnswers, "status" | "browse" | "events" | "explain" | "resolve">;

/** The status page of a running proxy. */
export async function createStatusPage(answers: PageAnswers): Promise<StatusPage> {
  const fields = { ...PRIVATE, "Content-Security-Policy": await contentSecurityPolicy() };
  // Counting examines every service, so an update without news shows the last count.
  let attention: Attention | undefined;

  const browsed = async (view: View): Promise<Pick<Parts, "namespaces" | "services">> => {
    try {
      const { q: search, ns: namespace, page } = view;
      const found = await answers.browse({
        ...{ search, namespace, attention: view.show !== "", order: "attention", page, pageSize: PAGE_SIZE },
      });
      attention = found.attention;
      return { namespaces: namespaceOptions(found.namespaces, view), services: servicesPart(found, view) };
    } catch (error) {
      if (!(error instanceof NotReadyError)) throw error;
      const services = html`<p class="quiet">The services have not been read yet.</p>`;
      return { namespaces: namespaceOptions([], view), services };
    }
  };
  /** The parts of the page; those about services only if there may be news. */
  const render = async (status: NodeView, view: View, isNews: boolean): Promise<Partial<Parts>> => {
    const ofServices = isNews ? { ...await browsed(view), explanation: await explanationPart(view, answers) } : {};
    return {
      summary: summaryPart(status, attention),
      problems: problemsPart(status),
      families: html`${status.families.map(familyCard)}`,
      events: eventsPart(await answers.events(0)),
      ...ofServices,
    };
  };

  return {
    async page({ query }) {
      const view = readView(new URLSearchParams(query));
      const status = await answers.status();
      const { markup } = pageDocument(status, await render(status, view, true) as Parts, view);
      return { status: 200, contentType: "text/html; charset=utf-8", fields, body: markup };
    },
    async live({ query }) {
      const parameters = new URLSearchParams(query);
      const status = await answers.status();
      const parts = await render(status, readView(parameters), status.stamp !== parameters.get("seen"));
      const markup = Object.entries(parts).map(([name, part]) => [name, part.markup]);
      const body = JSON.stringify({ stamp: status.stamp, atMs: status.atMs, parts: Object.fromEntries(markup) });
      return { status: 200, contentType: "application/json", fields: PRIVATE, body };
    },
  };
}

const PRIVATE: Readonly<Record<string, string>> = {
  "Cache-Control": "no-store",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Frame-Options": "DENY",
};

/** Permits the page's own script and style, and requests to this server, and nothing else. */
async function contentSecurityPolicy(): Promise<string> {
  return [
    "default-src 'none'",
    `style-src '${await sourceHash(STYLE)}'`,
    `script-src '${await sourceHash(LIVE_SCRIPT)}'`,
    "img-src data:",
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}

async function sourceHash(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return `sha256-${btoa(String.fromCharCode(...new Uint8Array(digest)))}`;
}

const SHOWN = 100;

function eventsPart({ events }: Feed): Html {
  if (events.length === 0) return html`<p class="quiet">Nothing has happened yet.</p>`;
  return html`<ol class="events">${events.slice(-SHOWN).reverse().map(eventRow)}</ol>`;
}

function eventRow(event: FeedEvent): Html {
  const { atMs, subject, family, tone, detail } = event;
  const isOpen = event.effect === "waiting";
  // The detail of a problem is with the problem, and with an earlier one in a tooltip.
  return html`
    <li
      class="${tone}${isOpen && " waiting"}"
      ${detail !== undefined && html`
        title="${detail}"
      `}><span class="at">${timeOfDay(
        atMs,
      )}</span><span><b>${subject}</b>${family !== undefined && html`
        <span class="family-tag">${family}</span>
      `} ${eventText({ ...event, detail: undefined })}</span></li>
  `;
}

/** The verdict in a sentence, and the lines about the node. `attention` is unknown before the first sync. */
function summaryPart(view: NodeView, attention: Attention | undefined): Html {
  const { lines } = view, { tone, words, reason } = headlineOf(view);
  const facts = lines.filter(({ tone }) => tone === undefined);
  return html`
    <div class="verdict ${tone}"
      role="status"><span class="dot"></span><p><strong>${words}</strong>${reason !== undefined && html`
        <span class="reason">${reason}</span>
      `}${attention !== undefined && attentionLink(attention)}</p></div>
    ${lines.map(stateLine)}
    <dl class="counts">${facts.map(({ label, words }) => row(label, wordsPart(words)))}</dl>
  `;
}

function attentionLink(attention: Attention): Html | false {
  const text = attentionText(attention);
  return text !== "" && html`
    <a class="reason" href="${addressOf({ ...WHOLE, show: "attention" })}" data-view>${text}</a>
  `;
}

function stateLine({ label, tone, words, reason }: StatusLine): Html | false {
  return tone !== undefined &&
    html`<p class="link ${tone}"><span class="dot"></span><span>${label}: ${wordsPart(words)}${
      reason !== undefined && html`
        <span class="reason">${reason}</span>
      `
    }</span></p>`;
}

function wordsPart(words: Words): Html {
  return html`${words.map((part) => typeof part === "string" ? part : moment(part.atMs))}`;
}

/** A family's state, its last syncs, and the lines about it. */
function familyCard({ family, state: { tone, words, reason }, syncs, lines }: FamilyView): Html {
  return html`<article class="card family ${tone}" data-family="${family}">
<header><h2>${family}</h2><span class="state ${tone}"><span class="dot"></span>${words}</span></header>
${reason !== undefined && html`<p class="reason">${reason}</p>`}
${syncs.length > 0 && syncChart(syncs)}
<dl class="rows">
${lines.map(({ label, words }) => row(label, wordsPart(words)))}
</dl>
</article>`;
}

/** The number of kinds of problems, and of occurrences of each, shown at first; the rest is collapsed. */
const SHOWN_PROBLEMS = 4;

/** The current problems by kind, each with its start, its fix and its documentation; nothing without any. */
function problemsPart({ problems }: Pick<NodeView, "problems">): Html {
  if (problems.length === 0) return html``;
  return html`<h2>Problems</h2>${list("problems", "problems", problems.map(kindRow))}`;
}

/** The first rows of a list; the rest expands. */
function list(key: string, name: string, rows: readonly Html[]): Html {
  const rest = rows.slice(SHOWN_PROBLEMS);
  return html`<ul class="${name}">${rows.slice(0, SHOWN_PROBLEMS)}</ul>${
    rest.length > 0 &&
    html`
      <details data-key="${key}">
        <summary>${rest.length} more</summary>
        <ul class="${name}">${rest}</ul>
      </details>
    `
  }`;
}

function kindRow({ code, tone, title, fix, occurrences }: ProblemView): Html {
  return html`<li class="${tone}"><p class="title"><strong>${title}</strong> <a href="${DOCUMENTATION}/problems.md#${code}"
title="Documentation of this problem"><code>${code}</code></a></p>
${list(`problems ${code}`, "occurrences", occurrences.map(occurrence))}
<p class="fix"><b>Fix</b> ${withCode(fix)}</p></li>`;
}

/** A text whose parts in backticks are code. */
function withCode(text: string): Html {
  return html`${text.split("`").map((part, i) => i % 2 === 0 ? part : html`<code>${part}</code>`)}`;
}

function occurrence({ subject, detail, sinceMs, count }: CurrentProblem): Html {
  return html`<li><b>${subject}</b> <span class="where">since ${moment(sinceMs)}${
    count > 1 && `, reported ${countText(count)} times`
  }</span><br>${detail}</li>`;
}
