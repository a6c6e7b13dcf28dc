import type { CountedTraffic } from "../../observe/traffic/mod.ts";
import { rateText } from "../../platform/mod.ts";
import type { ExplainedEndpoint } from "../mod.ts";
import { type Html, html } from "./html.ts";

/** An endpoint, with its traffic if that is counted. */
interface ShownEndpoint extends ExplainedEndpoint {
  readonly traffic?: CountedTraffic;
}

/** Endpoints with their use, their place, their traffic if it is counted, and the reason. */
export function endpointTable(endpoints: readonly ShownEndpoint[]): Html {
  const isCounted = endpoints.some(({ traffic }) => traffic !== undefined);
  const columns = ["Use", "Endpoint", "Node", "Zone", ...(isCounted ? ["Conn/s", "Bytes/s"] : []), "Why"];
  return html`
    <div class="scroll">
      <table class="endpoints">
        <thead>
          <tr>${columns.map((name) => html`<th scope="col">${name}</th>`)}</tr>
        </thead>
        <tbody>${endpoints.map(endpointRow)}</tbody>
      </table>
    </div>
  `;
}

function endpointRow({ target, used, node, onThisNode, zone, reason, traffic }: ShownEndpoint): Html {
  return html`
    <tr class="${used ? "in" : "out"}">
      <td>${used ? "in" : "out"}</td>
      <td><code>${target}</code></td>
      <td>${node || "–"}${onThisNode && html`
        <span class="here">this node</span>
      `}</td>
      <td>${zone || "–"}</td>${traffic && rateCells(traffic)}
      <td>${reason}</td>
    </tr>
  `;
}

function rateCells({ perSecond: { connections, bytes } }: CountedTraffic): Html {
  return html`
    <td>${rateText(connections)}</td>
    <td>${rateText(bytes)}</td>
  `;
}
