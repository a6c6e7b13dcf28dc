import { countText, megabytesText, plural } from "../../platform/mod.ts";
import { type ProxyStatus, stateOfLink, stateOfProxy, type StateWords } from "../control/mod.ts";
import { type Html, html } from "./html.ts";
import { moment } from "./time.ts";
import { addressOf, WHOLE } from "./view.ts";

/** The verdict in a sentence, the link to the source, and the figures of the proxy. `broken` is unknown before the first sync. */
export function summaryPart(status: ProxyStatus, broken: number | undefined): Html {
  const { tone, words, reason } = stateOfProxy(status);
  const waiting = status.changesToPlan + status.families.reduce((sum, { changesPending }) => sum + changesPending, 0);
  return html`
    <div class="verdict ${tone}"
      role="status"><span class="dot"></span><p><strong>${words}</strong>${reason !== undefined && html`
        <span class="reason">${reason}</span>
      `}${broken !== undefined && broken > 0 && brokenText(broken)}</p></div>
    ${linkPart(stateOfLink(status))}
    <dl class="figures">${figure("Services", countText(status.services))}${figure(
      "Changes waiting",
      countText(waiting),
    )}${figure("Memory", megabytesText(status.residentBytes))}${figure("Started", moment(status.startedAtMs))}</dl>
  `;
}

function brokenText(broken: number): Html {
  const verb = broken === 1 ? "is" : "are";
  return html`
    <a class="reason" href="${addressOf({ ...WHOLE, attention: true })}" data-view>${plural(
      broken,
      "service port",
    )} ${verb} broken</a>
  `;
}

function figure(name: string, value: Html | string): Html {
  return html`
    <div>
      <dt>${name}</dt>
      <dd>${value}</dd>
    </div>
  `;
}

/** The link to the API server or relay; nothing if the source is a file. */
function linkPart(link: StateWords | undefined): Html | undefined {
  return link &&
    html`<p class="link ${link.tone}"><span class="dot"></span><span>Source: ${link.words}${
      link.reason !== undefined && html`
        <span class="reason">${link.reason}</span>
      `
    }</span></p>`;
}
