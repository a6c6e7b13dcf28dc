import { countText, durationText, plural } from "../../platform/mod.ts";
import { type FamilyStatusDetails, type ProxyStatus, stateOfFamily } from "../control/mod.ts";
import { type Latency, sizeOfSync, type SyncSummary } from "../../observe/mod.ts";
import { type Html, html } from "./html.ts";
import { syncChart } from "./sync_chart.ts";
import { moment } from "./time.ts";

/** A card for each family: its state, its last syncs, and the latency of changes. */
export function familiesPart(status: ProxyStatus): Html {
  return html`${status.families.map((details) => familyCard(details, status))}`;
}

function familyCard(details: FamilyStatusDetails, status: ProxyStatus): Html {
  const { family, revision, servicePorts, changesPending, syncs, latency, noLocalEndpoints } = details;
  const { tone, words, reason } = stateOfFamily(details, status);
  const local = noLocalEndpoints.internal + noLocalEndpoints.external;
  return html`<article class="card family ${tone}" data-family="${family}">
<header><h2>${family}</h2><span class="state ${tone}"><span class="dot"></span>${words}</span></header>
${reason !== undefined && html`<p class="reason">${reason}</p>`}
${syncChart(syncs)}
<p class="legend"><span class="swatch duration"></span>duration <span class="swatch size"></span>size of the last syncs</p>
<dl class="rows">
<div><dt>Last sync</dt><dd>${lastSync(syncs.find(({ ok }) => ok))}</dd></div>
<div><dt>Revision</dt><dd>${countText(revision)}</dd></div>
<div><dt>Service ports</dt><dd>${countText(servicePorts)}${
    changesPending > 0 && html`, <em>${countText(changesPending)} waiting</em>`
  }</dd></div>
${
    local > 0 &&
    html`
      <div>
        <dt>Policy Local</dt>
        <dd>${plural(local, "service port")} without endpoints here</dd>
      </div>
    `
  }
</dl>
${latencyTable(latency)}
</article>`;
}

function lastSync(sync: SyncSummary | undefined): Html {
  if (sync === undefined) return html`none has succeeded yet`;
  const { total } = sizeOfSync(sync);
  return html`${moment(sync.endedAtMs)}, ${durationText(sync.durationMs)}, ${
    total === 0 ? "nothing to write" : plural(total, "change")
  }`;
}

function latencyTable(latency: Latency | undefined): Html {
  if (latency === undefined) return html`<p class="quiet">No change of endpoints has come into effect yet.</p>`;
  const { changes, p50Ms, p90Ms, p99Ms, longestMs } = latency;
  return html`
    <table class="latency">
      <caption>From a change of endpoints to its effect here, over the last ${countText(changes)}</caption>
      <thead>
        <tr>
          <th scope="col">p50</th>
          <th scope="col">p90</th>
          <th scope="col">p99</th>
          <th scope="col">longest</th>
        </tr>
      </thead>
      <tbody>
        <tr>${[p50Ms, p90Ms, p99Ms, longestMs].map((ms) => html`<td>${durationText(ms)}</td>`)}</tr>
      </tbody>
    </table>
  `;
}
