/** Renders the status page: the whole page, or the parts that may have changed. */
import { type ControlAnswers, NotReadyError, type ProxyStatus } from "../control/mod.ts";
import type { StatusPage } from "../../observe/mod.ts";
import { pageDocument, type Parts } from "./document.ts";
import { eventsPart } from "./events.ts";
import { explanationPart } from "./explanation.ts";
import { familiesPart } from "./families.ts";
import { html } from "./html.ts";
import { problemsPart } from "./problems.ts";
import { LIVE_SCRIPT } from "./script.ts";
import { namespaceOptions, servicesPart } from "./services.ts";
import { STYLE } from "./style.ts";
import { summaryPart } from "./summary.ts";
import { PAGE_SIZE, readView, type View } from "./view.ts";

/** The answers that the page is rendered from. */
export type PageAnswers = Pick<ControlAnswers, "status" | "browse" | "events" | "explain" | "resolve">;

/** The status page of a running proxy. */
export async function createStatusPage(answers: PageAnswers): Promise<StatusPage> {
  const fields = { ...PRIVATE, "Content-Security-Policy": await contentSecurityPolicy() };
  // Counting examines every service, so an update without news shows the last count.
  let broken: number | undefined;

  const browsed = async (view: View): Promise<Pick<Parts, "namespaces" | "services">> => {
    try {
      const found = await answers.browse({ ...view, order: "broken", pageSize: PAGE_SIZE });
      broken = found.broken;
      return { namespaces: namespaceOptions(found.namespaces, view), services: servicesPart(found, view) };
    } catch (error) {
      if (!(error instanceof NotReadyError)) throw error;
      const services = html`<p class="quiet">The services have not been read yet.</p>`;
      return { namespaces: namespaceOptions([], view), services };
    }
  };
  /** The parts of the page; those about services only if there may be news. */
  const render = async (status: ProxyStatus, view: View, isNews: boolean): Promise<Partial<Parts>> => {
    const ofServices = isNews ? { ...await browsed(view), explanation: await explanationPart(view, answers) } : {};
    return {
      summary: summaryPart(status, broken),
      problems: problemsPart(status),
      families: familiesPart(status),
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
