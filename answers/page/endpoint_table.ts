import type { ExplainedEndpoint } from "../mod.ts";
import { type Html, html } from "./html.ts";

/** Endpoints with their use, their place and the reason. */
export function endpointTable(endpoints: readonly ExplainedEndpoint[]): Html {
  const columns = ["Use", "Endpoint", "Node", "Zone", "Why"];
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

function endpointRow({ target, used, node, onThisNode, zone, reason }: ExplainedEndpoint): Html {
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
