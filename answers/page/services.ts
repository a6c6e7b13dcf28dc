import { countText, joinHostPort, plural } from "../../platform/mod.ts";
import {
  type BrowsedService,
  frontendsOfService,
  hasExternalFrontends,
  type ListedEndpoint,
  type ServicePage,
  stoppedTraffic,
} from "../mod.ts";
import { type Html, html } from "./html.ts";
import { addressOf, type View } from "./view.ts";

/** A page of services; each expands to its endpoints. */
export function servicesPart(found: ServicePage, view: View): Html {
  const { services, total, page, pages } = found;
  if (total === 0) return html`<p class="quiet">${nothingText(view)}</p>`;
  const link = (to: number, text: string, rel: string) =>
    to >= 1 && to <= pages
      ? html`<a href="${addressOf({ ...view, page: to })}" rel="${rel}" data-view>${text}</a>`
      : html`<span class="off">${text}</span>`;
  return html`<p class="count">${plural(total, "service port")}</p>
<div class="services">${services.map(serviceRow)}</div>
${
    pages > 1 &&
    html`<nav class="pages" aria-label="Pages">${link(page - 1, "Previous", "prev")}<span>${countText(page)} of ${
      countText(pages)
    }</span>${link(page + 1, "Next", "next")}</nav>`
  }`;
}

function nothingText({ search, attention }: View): string {
  const kind = attention ? "broken service" : "service";
  return search === "" ? `No ${kind}.` : `No ${kind} with “${search}” in its name.`;
}

function serviceRow(service: BrowsedService): Html {
  const { name, family, type, protocol, usedEndpoints, endpoints, served, problems } = service;
  const slash = name.indexOf("/");
  const stops = stoppedTraffic(service);
  const tone = !served ? "bad" : problems.length > 0 || stops.length > 0 ? "warning" : "good";
  return html`
    <details class="service" data-key="${name} ${protocol} ${family}">
      <summary>
        <span
          class="name"><span class="dot ${tone}"></span><span><span class="namespace">${name.slice(
            0,
            slash + 1,
          )}</span>${name.slice(slash + 1)}</span></span>
        <span class="kind">${type} <span class="family-tag">${family}</span></span>
        <span class="frontends">${frontendsOfService(service).slice(0, 3).map((at) =>
          html`
            <code>${at}</code>
          `
        )}<span
    class="protocol">${protocol.toUpperCase()}</span></span>
        <span class="share">${meter(usedEndpoints, endpoints)}<span>${countText(
          usedEndpoints,
        )}<span class="of"> / ${countText(endpoints)}</span></span></span>
      </summary>
      <div class="more">${[...problems, ...stops].map((note) => html`<p class="note">${note}</p>`)}
    ${serviceFacts(service)}
    ${endpointTable(service)}
    <p class="hint"><code>sluice explain ${destinationOf(service)}</code></p></div>
    </details>
  `;
}

function serviceFacts(service: BrowsedService): Html | false {
  const { internal, external, affinitySeconds } = service;
  const facts = [
    ...frontendsOfService(service).slice(3),
    ...(internal === "local" ? ["internal traffic stays on this node"] : []),
    ...(hasExternalFrontends(service) && external === "local" ? ["traffic from outside stays on this node"] : []),
    ...(affinitySeconds > 0 ? [`clients stay with their endpoint for ${countText(affinitySeconds)} s`] : []),
  ];
  return facts.length > 0 && html`<p class="facts">${facts.join(" · ")}</p>`;
}

/** The share of endpoints in use, as a bar of five segments. */
function meter(used: number, all: number): Html {
  const lit = used === 0 ? 0 : Math.max(1, Math.floor(5 * used / all));
  return html`<svg class="meter" viewBox="0 0 34 8" aria-hidden="true">${
    [0, 1, 2, 3, 4].map((i) =>
      html`
        <rect x="${i * 7}" y="0" width="5" height="8" rx="1.5" class="${i < lit ? "lit" : "unlit"}" />
      `
    )
  }</svg>`;
}

function endpointTable({ name, endpoints, shownEndpoints }: BrowsedService): Html {
  if (endpoints === 0) return html`<p class="quiet">It has no endpoints.</p>`;
  const left = endpoints - shownEndpoints.length;
  return html`
    <div class="scroll">
      <table class="endpoints">
        <thead>
          <tr>
            <th scope="col">Use</th>
            <th scope="col">Endpoint</th>
            <th scope="col">Node</th>
            <th scope="col">Zone</th>
            <th
              scope="col">Why</th>
          </tr>
        </thead>
        <tbody>${shownEndpoints.map(endpointRow)}</tbody>
      </table>
    </div>
    ${left > 0 &&
      html`<p class="quiet">and ${countText(left)} more: <a href="${
        addressOf({ search: name, attention: false, page: 1 })
      }" data-view>look at this service alone</a></p>`}
  `;
}

function endpointRow({ target, used, node, onThisNode, zone, reason }: ListedEndpoint): Html {
  return html`
    <tr class="${used ? "in" : "out"}">
      <td>${used ? "in" : "out"}</td>
      <td><code>${target}</code></td>
      <td>${node || "–"}${onThisNode && html`
        <span class="here">this node</span>
      `}</td>
      <td>${zone || "–"}</td>
      <td>${reason}</td>
    </tr>
  `;
}

function destinationOf({ clusterIP, port, protocol }: BrowsedService): string {
  return `${joinHostPort(clusterIP, port)}${protocol === "tcp" ? "" : `/${protocol}`}`;
}
