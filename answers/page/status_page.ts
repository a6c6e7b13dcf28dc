/** Renders the status page: the whole page, or the parts that may have changed. */
import { type ControlAnswers, NotReadyError } from "../control/mod.ts";
import type { StatusPage } from "../../observe/mod.ts";
import { pageDocument, type Parts } from "./document.ts";
import { familiesPart } from "./families.ts";
import { type Html, html } from "./html.ts";
import { problemsPart } from "./problems.ts";
import { LIVE_SCRIPT } from "./script.ts";
import { servicesPart } from "./services.ts";
import { STYLE } from "./style.ts";
import { summaryPart } from "./summary.ts";
import { PAGE_SIZE, readView, type View } from "./view.ts";

/** The answers that the page is rendered from. */
export type PageAnswers = Pick<ControlAnswers, "status" | "browse">;

/** The status page of a running proxy. */
export async function createStatusPage(answers: PageAnswers): Promise<StatusPage> {
  const fields = { ...PRIVATE, "Content-Security-Policy": await contentSecurityPolicy() };

  const services = async (view: View): Promise<Html> => {
    try {
      return servicesPart(await answers.browse({ ...view, pageSize: PAGE_SIZE }), view);
    } catch (error) {
      if (!(error instanceof NotReadyError)) throw error;
      return html`<p class="quiet">The services have not been read yet.</p>`;
    }
  };

  return {
    async page({ query }) {
      const view = readView(new URLSearchParams(query));
      const status = await answers.status();
      const parts: Parts = {
        summary: summaryPart(status),
        families: familiesPart(status),
        problems: problemsPart(status),
        services: await services(view),
      };
      const { markup } = pageDocument(status, parts, view);
      return { status: 200, contentType: "text/html; charset=utf-8", fields, body: markup };
    },
    async live({ query }) {
      const parameters = new URLSearchParams(query);
      const status = await answers.status();
      const isNews = status.stamp !== parameters.get("seen");
      const parts: Readonly<Partial<Parts>> = {
        summary: summaryPart(status),
        families: familiesPart(status),
        problems: problemsPart(status),
        services: isNews ? await services(readView(parameters)) : undefined,
      };
      const markup = Object.entries(parts).map(([name, part]) => [name, part?.markup]);
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
