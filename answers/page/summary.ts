import { countText, megabytesText } from "../../platform/mod.ts";
import { type ProxyStatus, stateOfLink, stateOfProxy, type StateWords } from "../control/mod.ts";
import { type Html, html } from "./html.ts";
import { moment } from "./time.ts";

/** The state and the figures of the proxy as a whole. */
export function summaryPart(status: ProxyStatus): Html {
  const { tone, words, reason } = stateOfProxy(status);
  const waiting = status.changesToPlan + status.families.reduce((sum, { changesPending }) => sum + changesPending, 0);
  const figure = (name: string, value: Html | string) =>
    html`
      <div>
        <dt>${name}</dt>
        <dd>${value}</dd>
      </div>
    `;
  return html`
    <div class="state ${tone}"
      role="status"><span class="dot"></span><div><strong>${words}</strong>${reason !== undefined &&
        html`<span class="reason">${reason}</span>`}</div></div>
    ${linkPart(stateOfLink(status))}
    <dl class="figures">${figure("Services", countText(status.services))}${figure(
      "Changes waiting",
      countText(waiting),
    )}${figure("Memory", megabytesText(status.residentBytes))}${figure("Started", moment(status.startedAtMs))}</dl>
  `;
}

/** The link to the API server or relay; nothing if the source is a file. */
function linkPart(link: StateWords | undefined): Html | undefined {
  return link && html`
    <p class="link"><span class="dot ${link.tone}"></span> Source: ${link.words}${link.reason !== undefined &&
      html`
        <span class="reason">${link.reason}</span>
      `}</p>
  `;
}
