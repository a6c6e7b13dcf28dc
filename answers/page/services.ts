import { countText, joinHostPort, plural, rateText } from "../../platform/mod.ts";
import {
  balanceText,
  type BrowsedService,
  failuresText,
  frontendsOfService,
  hasExternalFrontends,
  type ServicePage,
  stoppedTraffic,
} from "../mod.ts";
import { endpointTable } from "./endpoint_table.ts";
import type { ServiceTraffic } from "../../observe/traffic/mod.ts";
import { type Html, html, literally } from "./html.ts";
import { addressOf, type View, WHOLE } from "./view.ts";

/** A page of services; each expands to its endpoints. */
export function servicesPart(found: ServicePage, view: View): Html {
  const { services, total, page, pages } = found;
  if (total === 0) return html`<p class="quiet">${nothingText(view)}</p>`;
  const link = (to: number, text: string, rel: string) =>
    to >= 1 && to <= pages
      ? html`<a href="${addressOf({ ...view, page: to })}" rel="${rel}" data-view>${text}</a>`
      : html`<span class="off">${text}</span>`;
  return html`<p class="count">${plural(total, "service port")}</p>
<div class="services">${services.map((service) => serviceRow(service, view))}</div>
${
    pages > 1 &&
    html`<nav class="pages" aria-label="Pages">${link(page - 1, "Previous", "prev")}<span>${countText(page)} of ${
      countText(pages)
    }</span>${link(page + 1, "Next", "next")}</nav>`
  }`;
}

/** The options of the namespace filter. The one that is selected is there even if it has no service. */
export function namespaceOptions(namespaces: readonly string[], { namespace }: View): Html {
  const all = namespace === "" || namespaces.includes(namespace) ? namespaces : [...namespaces, namespace];
  return html`<option value="">all namespaces</option>${
    all.map((name) => html`<option${name === namespace && literally(" selected")}>${name}</option>`)
  }`;
}

function nothingText({ search, namespace, attention }: View): string {
  const kind = attention ? "broken service" : "service";
  const where = namespace === "" ? "" : ` in namespace ${namespace}`;
  return search === "" ? `No ${kind}${where}.` : `No ${kind} with “${search}” in its name${where}.`;
}

/** The urgency of a service port, and what is wrong with it, one sentence each. */
function stateOf(service: BrowsedService): { readonly tone: string; readonly notes: readonly string[] } {
  const { effect, served, problems } = service;
  const notes = [...problems, ...stoppedTraffic(service)];
  if (!served || effect?.state === "refused") return { tone: "bad", notes };
  if (effect?.state === "waiting") {
    return { tone: "waiting", notes: ["Not in effect yet: its last change waits.", ...notes] };
  }
  return { tone: notes.length > 0 ? "warning" : "good", notes };
}

function serviceRow(service: BrowsedService, view: View): Html {
  const { name, family, type, protocol, usedEndpoints, endpoints, traffic } = service;
  const slash = name.indexOf("/");
  const { tone, notes } = stateOf(service);
  return html`
    <details class="service ${tone}" data-key="${name} ${protocol} ${family}">
      <summary>
    <span class="name"><span class="dot"></span><span><span class="namespace">${name.slice(0, slash + 1)}</span>${name
      .slice(slash + 1)}</span></span>
    <span class="kind">${type} <span class="family-tag">${family}</span></span>
    <span class="frontends">${frontendsOfService(service).slice(0, 3).map((at) =>
      html`
        <code>${at}</code>
      `
    )}<span class="protocol">${protocol.toUpperCase()}</span></span>
    <span class="share">${meter(usedEndpoints, endpoints)}<span>${countText(
      usedEndpoints,
    )}<span class="of"> / ${countText(endpoints)}</span></span></span>
    ${traffic &&
      html`<span class="traffic">${ratesText(traffic)}</span>`}
    ${notes[0] !== undefined && html`<span class="why">${notes[0]}</span>`}
      </summary>
      <div class="more">${notes.slice(1).map((note) => html`<p class="note">${note}</p>`)}
    ${serviceFacts(service)}
    ${endpointsOf(service)}
    <p class="hint"><a href="${addressOf({
      ...view,
      to: destinationOf(service),
    })}" data-view>Explain a connection to ${destinationOf(service)}</a></p></div>
    </details>
  `;
}

function serviceFacts(service: BrowsedService): Html | false {
  const { internal, external, affinitySeconds, balance, traffic } = service;
  const facts = [
    ...(traffic === undefined ? [] : trafficFacts(traffic)),
    ...frontendsOfService(service).slice(3),
    ...(internal === "local" ? ["internal traffic stays on this node"] : []),
    ...(hasExternalFrontends(service) && external === "local" ? ["traffic from outside stays on this node"] : []),
    ...(balance === undefined ? [] : [`balanced: ${balanceText(balance)}`]),
    ...(affinitySeconds > 0 ? [`clients stay with their endpoint for ${countText(affinitySeconds)} s`] : []),
  ];
  return facts.length > 0 && html`<p class="facts">${facts.join(" · ")}</p>`;
}

/** The rates of what is counted. */
function ratesText({ perSecond: { connections, bytes } }: ServiceTraffic): string {
  const unit = (rate: string) => rate.replace(/[a-z]?$/i, " $&B/s");
  return [`${rateText(connections)} conn/s`, ...(bytes === undefined ? [] : [unit(rateText(bytes))])].join(" · ");
}

function trafficFacts(traffic: ServiceTraffic): string[] {
  const { connections, packets, bytes } = traffic, failures = failuresText(traffic);
  const counts = [
    plural(connections, "connection"),
    ...(packets === undefined ? [] : [plural(packets, "packet")]),
    ...(bytes === undefined ? [] : [plural(bytes, "byte")]),
  ];
  return [
    `${counts.join(", ")} so far`,
    ...(failures === "" ? [] : [`failed packets: ${failures}`]),
  ];
}

const METER_WIDTH = 48;
/** The largest number of endpoints that has a segment for each. */
const MOST_SEGMENTS = 8;

/** The endpoints in use of all: a segment for each, or the share if there are many. */
function meter(used: number, all: number): Html {
  const count = Math.min(all, MOST_SEGMENTS);
  const gap = 2, width = (METER_WIDTH - gap * (Math.max(1, count) - 1)) / Math.max(1, count);
  const segments = Array.from({ length: count }, (_, i) => ({ x: i * (width + gap), width, lit: i < used }));
  // At least a pixel of each, so that one endpoint that is out among hundreds is visible.
  const share = used === 0 || used === all
    ? used / all
    : Math.min(1 - 1 / METER_WIDTH, Math.max(1 / METER_WIDTH, used / all));
  const bars = all <= MOST_SEGMENTS ? segments : [
    { x: 0, width: METER_WIDTH, lit: false },
    { x: 0, width: METER_WIDTH * share, lit: true },
  ];
  return html`<svg class="meter" viewBox="0 0 ${METER_WIDTH} 8" aria-hidden="true">${
    bars.map(({ x, width, lit }) =>
      html`
        <rect x="${round(x)}" y="0" width="${round(width)}" height="8" rx="1.5" class="${lit ? "lit" : "unlit"}" />
      `
    )
  }</svg>`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function endpointsOf({ name, endpoints, shownEndpoints }: BrowsedService): Html {
  if (endpoints === 0) return html`<p class="quiet">It has no endpoints.</p>`;
  const left = endpoints - shownEndpoints.length;
  return html`${endpointTable(shownEndpoints)}${
    left > 0 &&
    html`<p class="quiet">and ${countText(left)} more: <a href="${
      addressOf({ ...WHOLE, search: name })
    }" data-view>look at this service alone</a></p>`
  }`;
}

function destinationOf({ clusterIP, port, protocol }: BrowsedService): string {
  return `${joinHostPort(clusterIP, port)}${protocol === "tcp" ? "" : `/${protocol}`}`;
}
