import { countText } from "../../platform/mod.ts";
import { problemKind, type Severity } from "../../core/problems/mod.ts";
import type { ProxyStatus, StateWords } from "../control/mod.ts";
import { type Html, html } from "./html.ts";
import { moment } from "./time.ts";

const TONES: Readonly<Record<Severity, StateWords["tone"]>> = { error: "bad", warning: "warning" };

/** The number of problems shown at first; the rest is collapsed. */
const SHOWN = 5;

/** The current problems, each with its fix. */
export function problemsPart({ problems }: ProxyStatus): Html {
  if (problems.length === 0) {
    return html`
      <h2>Problems</h2>
      <p class="quiet">None.</p>
    `;
  }
  const rows = problems.map(({ code, subject, detail, sinceMs, count }) => {
    const { severity, title, fix } = problemKind(code);
    return html`
      <li>
        <p class="title"><span class="dot ${TONES[severity]}"></span> ${title}</p>
        <p class="where"><code>${subject}</code> since ${moment(sinceMs)}${count > 1 && html`
          <span class="times">${countText(count)} times</span>
        `}</p>
        <p>${detail}</p>
        <p class="where">Fix: ${fix} <code>${code}</code></p>
      </li>
    `;
  });
  const rest = rows.slice(SHOWN);
  return html`<h2>Problems</h2><ul class="problems">${rows.slice(0, SHOWN)}</ul>${
    rest.length > 0 &&
    html`
      <details data-key="problems">
        <summary>${rest.length} more</summary>
        <ul class="problems">${rest}</ul>
      </details>
    `
  }`;
}
