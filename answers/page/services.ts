import {
  balanceText,
  type BrowsedService,
  type ExplainedEndpoint,
  failuresText,
  frontendsOfService,
  type ListedEndpoint,
  type ServicePage,
  sharesText,
  stateOfService,
} from "../mod.ts";
import { type Html, html, literally, round } from "./html.ts";
import { type CountedTraffic, hasExternalFrontends, type ServiceTraffic } from "../../core/model/mod.ts";
import { countText, joinHostPort, plural, rateText } from "../../platform/mod.ts";

/** The view of the page by the parameters of its URL, which are empty if they are not set. */
export interface View {
  readonly q: string;
  readonly ns: string;
  readonly show: "" | "attention";
  readonly page: number;
  /** The destination to explain, as typed. */
  readonly to: string;
  /** The client of the connection; empty for all three kinds. */
  readonly from: string;
}

/** The number of service ports on one page. */
export const PAGE_SIZE = 25;

/** The view of a page without a query. */
export const WHOLE: View = { q: "", ns: "", show: "", page: 1, to: "", from: "" };

const LONGEST_TEXT = 200;

/** Reads the view from a query. Ignores invalid values. */
export function readView(query: URLSearchParams): View {
  const page = Number(query.get("page"));
  // Names and addresses are lower-case.
  const text = (name: string) => (query.get(name) ?? "").trim().toLowerCase().slice(0, LONGEST_TEXT);
  return {
    ...{ q: text("q"), ns: text("ns"), to: text("to"), from: text("from") },
    show: query.get("show") === "attention" ? "attention" : "",
    page: Number.isSafeInteger(page) && page > 0 ? page : 1,
  };
}

/** The address of a view: `/?q=web&page=2`. */
export function addressOf({ q, ns, show, page, to, from }: View): string {
  const all = Object.entries({ q, ns, show, page: page > 1 ? String(page) : "", to, from });
  const given = all.filter(([, value]) => value !== "");
  return given.length === 0 ? "/" : `/?${new URLSearchParams(given)}`;
}

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
export function namespaceOptions(namespaces: readonly string[], { ns }: View): Html {
  const all = ns === "" || namespaces.includes(ns) ? namespaces : [...namespaces, ns];
  return html`<option value="">all namespaces</option>${
    all.map((name) => html`<option${name === ns && literally(" selected")}>${name}</option>`)
  }`;
}

function nothingText({ q, ns, show }: View): string {
  const kind = show === "" ? "service" : "service needing attention";
  const where = ns === "" ? "" : ` in namespace ${ns}`;
  return q === "" ? `No ${kind}${where}.` : `No ${kind} with “${q}” in its name${where}.`;
}

function serviceRow(service: BrowsedService, view: View): Html {
  const { name, family, type, protocol, usedEndpoints, endpoints, traffic } = service;
  const slash = name.indexOf("/");
  const { tone, notes: problems } = stateOfService(service);
  const notes = [...(tone === "waiting" ? ["Not in effect yet: its last change waits."] : []), ...problems];
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
  return [`${counts.join(", ")} so far`, ...(failures === "" ? [] : [`failed packets: ${failures}`])];
}

const METER_WIDTH = 48;
/** The maximum number of endpoints with one segment each. */
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

function endpointsOf({ name, endpoints, shownEndpoints }: BrowsedService): Html {
  if (endpoints === 0) return html`<p class="quiet">It has no endpoints.</p>`;
  const left = endpoints - shownEndpoints.length;
  return html`${endpointTable(shownEndpoints)}${
    left > 0 &&
    html`<p class="quiet">and ${countText(left)} more: <a href="${
      addressOf({ ...WHOLE, q: name })
    }" data-view>look at this service alone</a></p>`
  }`;
}

function destinationOf({ clusterIP, port, protocol }: BrowsedService): string {
  return `${joinHostPort(clusterIP, port)}${protocol === "tcp" ? "" : `/${protocol}`}`;
}

/** An endpoint, with its traffic if that is counted. */
type ShownEndpoint = ExplainedEndpoint & Pick<ListedEndpoint, "traffic">;

/** Endpoints with their use, place, counted traffic and the reason; on a phone, each cell is a line. */
export function endpointTable(endpoints: readonly ShownEndpoint[]): Html {
  const isCounted = endpoints.some(({ traffic }) => traffic !== undefined);
  const isBalanced = endpoints.some(({ shares }) => shares !== undefined);
  const columns = [
    "Use",
    "Endpoint",
    "Node",
    "Zone",
    ...(isBalanced ? ["Share"] : []),
    ...(isCounted ? ["Conn/s"] : []),
    ...(endpoints.some(({ traffic }) => traffic?.bytes !== undefined) ? ["Bytes/s"] : []),
    "Why",
  ];
  return html`
    <div class="scroll">
      <table class="endpoints">
        <thead>
          <tr>${columns.map((name) => html`<th scope="col">${name}</th>`)}</tr>
        </thead>
        <tbody>${endpoints.map((endpoint) => endpointRow(endpoint, isBalanced))}</tbody>
      </table>
    </div>
  `;
}

function endpointRow(
  { target, used, node, onThisNode, zone, shares, reason, traffic }: ShownEndpoint,
  isBalanced: boolean,
): Html {
  return html`
    <tr class="${used ? "in" : "out"}">
      <td>${used ? "in" : "out"}</td>
      <td><code>${target}</code></td>
      <td data-name="Node">${node || "–"}${onThisNode && html`
        <span class="here">this node</span>
      `}</td>
      <td data-name="Zone">${zone || "–"}</td>${isBalanced &&
        html`<td data-name="Share">${sharesText(shares ?? {}) || "–"}</td>`}${traffic && rateCells(traffic)}
      <td data-name="Why">${reason}</td>
    </tr>
  `;
}

function rateCells({ perSecond: { connections, bytes } }: CountedTraffic): Html {
  return html`
    <td data-name="Conn/s">${rateText(connections)}</td>${bytes !== undefined &&
      html`<td data-name="Bytes/s">${rateText(bytes)}</td>`}
  `;
}
