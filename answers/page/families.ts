import { countText, durationText, plural } from "../../platform/mod.ts";
import { type FamilyStatusDetails, type ProxyStatus, stateOfCanary, stateOfFamily } from "../control/mod.ts";
import { type Latency, sizeOfSync, type SyncSummary } from "../../observe/mod.ts";
import { type Html, html } from "./html.ts";
import { syncChart } from "./sync_chart.ts";
import { moment } from "./time.ts";

/** A card for each family: its state, its last syncs, and the latency of changes. */
export function familiesPart(status: ProxyStatus): Html {
  return html`${status.families.map((details) => familyCard(details, status))}`;
}

function familyCard(details: FamilyStatusDetails, status: ProxyStatus): Html {
  const { family, revision, servicePorts, changesPending, syncs, latency, noLocalEndpoints, driftRepaired } = details;
  const { tone, words, reason } = stateOfFamily(details, status);
  const canary = stateOfCanary(details, status.atMs);
  const local = noLocalEndpoints.internal + noLocalEndpoints.external;
  const row = (name: string, value: HtmlOrText) =>
    html`
      <div>
        <dt>${name}</dt>
        <dd>${value}</dd>
      </div>
    `;
  return html`<article class="card family ${tone}" data-family="${family}">
<header><h2>${family}</h2><span class="state ${tone}"><span class="dot"></span>${words}</span></header>
${reason !== undefined && html`<p class="reason">${reason}</p>`}
${syncs.length > 0 && syncChart(syncs)}
<dl class="rows">
${row("Last sync", lastSync(syncs.find(({ ok }) => ok)))}
${
    row(
      "Service ports",
      html`${countText(servicePorts)}${changesPending > 0 && html`, <em>${countText(changesPending)} waiting</em>`}`,
    )
  }
${canary !== undefined && row("Packets", canary.words)}
${local > 0 && row("Policy Local", `${plural(local, "service port")} without endpoints here`)}
${driftRepaired > 0 && row("Repaired", `${plural(driftRepaired, "change")} by other programs`)}
${row("Revision", countText(revision))}
</dl>
${latencyTable(latency)}
</article>`;
}

type HtmlOrText = Html | string;

function lastSync(sync: SyncSummary | undefined): Html {
  if (sync === undefined) return html`none has succeeded yet`;
  const { total } = sizeOfSync(sync);
  return html`${moment(sync.endedAtMs)}, ${durationText(sync.durationMs)}, ${
    total === 0 ? "nothing to write" : plural(total, "change")
  }`;
}

function latencyTable(latency: Latency | undefined): Html | undefined {
  if (latency === undefined) return undefined;
  const { changes, p50Ms, p90Ms, p99Ms, longestMs } = latency;
  const columns = [["p50", p50Ms], ["p90", p90Ms], ["p99", p99Ms], ["longest", longestMs]] as const;
  return html`
    <table class="latency">
      <caption>From endpoint change to effect, over the last ${countText(changes)}</caption>
      <thead>
        <tr>${columns.map(([name]) => html`<th scope="col">${name}</th>`)}</tr>
      </thead>
      <tbody>
        <tr>${columns.map(([, ms]) => html`<td>${durationText(ms)}</td>`)}</tr>
      </tbody>
    </table>
  `;
}
