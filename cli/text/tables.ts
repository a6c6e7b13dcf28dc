import {
  frontendsOfService,
  hasExternalFrontends,
  type ListedEndpoint,
  type ListedService,
} from "../../answers/mod.ts";

/** Service ports as a table for a terminal. */
export function servicesTable(services: readonly ListedService[]): string {
  const headings = ["name", "type", "frontends", "internal", "external", "endpoints", "state", "notes"];
  return tableText(
    headings,
    services.map((service) => [
      service.name,
      service.type,
      `${frontendsOfService(service).join(",")}/${service.protocol.toUpperCase()}`,
      service.internal,
      hasExternalFrontends(service) ? service.external : "-",
      `${service.usedEndpoints}/${service.endpoints}`,
      service.served ? service.effect?.state ?? "-" : "not served",
      notesOf(service),
    ]),
  );
}

/** Endpoints as a table for a terminal. */
export function endpointsTable(endpoints: readonly ListedEndpoint[]): string {
  const headings = ["service", "endpoint", "node", "zone", "use", "why"];
  return tableText(
    headings,
    endpoints.map((endpoint) => [
      endpoint.service,
      `${endpoint.target}/${endpoint.protocol.toUpperCase()}`,
      endpoint.node || "-",
      endpoint.zone || "-",
      endpoint.used ? "in" : "out",
      endpoint.reason,
    ]),
  );
}

function notesOf({ problems, affinitySeconds, effect }: ListedService): string {
  return [
    ...(effect?.refusal === undefined ? [] : [effect.refusal]),
    ...(affinitySeconds > 0 ? [`affinity ${affinitySeconds} s`] : []),
    ...problems,
  ].join("; ");
}

/** Pads the columns to their widest cell, with two spaces in between and headings in capitals. */
function tableText(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [headings.map((heading) => heading.toUpperCase()), ...rows];
  const widths = headings.map((_, column) => Math.max(...all.map((row) => row[column]!.length)));
  return all.map((row) => `${row.map((cell, column) => cell.padEnd(widths[column]!)).join("  ").trimEnd()}\n`).join("");
}
