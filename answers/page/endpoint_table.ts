import type { CountedTraffic } from "../../observe/traffic/mod.ts";
import { rateText } from "../../platform/mod.ts";
import { type ExplainedEndpoint, sharesText } from "../mod.ts";
import { type Html, html } from "./html.ts";

/** An endpoint, with its traffic if that is counted. */
interface ShownEndpoint extends ExplainedEndpoint {
  readonly traffic?: CountedTraffic;
}

/** Endpoints with their use, their place, their traffic if it is counted, and the reason. */
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
      <td>${node || "–"}${onThisNode && html`
        <span class="here">this node</span>
      `}</td>
      <td>${zone || "–"}</td>${isBalanced && html`<td>${sharesText(shares ?? {}) || "–"}</td>`}${traffic &&
        rateCells(traffic)}
      <td>${reason}</td>
    </tr>
  `;
}

function rateCells({ perSecond: { connections, bytes } }: CountedTraffic): Html {
  return html`
    <td>${rateText(connections)}</td>${bytes !== undefined && html`<td>${rateText(bytes)}</td>`}
  `;
}
