import { countText } from "../../platform/mod.ts";
import type { ProxyStatus } from "../control/mod.ts";
import { type Html, html } from "./html.ts";
import { moment } from "./time.ts";

/** How many are shown at once; the rest is folded away. */
const SHOWN = 5;

/** What could not be used or done of late, the newest first. */
export function problemsPart({ problems }: ProxyStatus): Html {
  if (problems.length === 0) {
    return html`
      <h2>Recent problems</h2>
      <p class="quiet">None.</p>
    `;
  }
  const rows = problems.map(({ where, message, lastAtMs, count }) =>
    html`
      <li>
        <p class="where"><code>${where}</code> ${moment(lastAtMs)}${count > 1 && html`
          <span class="times">${countText(count)} times</span>
        `}</p>
        <p>${message}</p>
      </li>
    `
  );
  const rest = rows.slice(SHOWN);
  return html`<h2>Recent problems</h2><ul class="problems">${rows.slice(0, SHOWN)}</ul>${
    rest.length > 0 &&
    html`
      <details data-key="problems">
        <summary>${rest.length} earlier</summary>
        <ul class="problems">${rest}</ul>
      </details>
    `
  }`;
}
