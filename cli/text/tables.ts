import { rateText } from "../../platform/mod.ts";
import type { CountedTraffic, ServiceTraffic } from "../../observe/traffic/mod.ts";
import {
  balanceText,
  failuresText,
  frontendsOfService,
  hasExternalFrontends,
  type ListedEndpoint,
  type ListedService,
  sharesText,
} from "../../answers/mod.ts";

/** Service ports as a table for a terminal. */
export function servicesTable(services: readonly ListedService[]): string {
  const counted = services.some(({ traffic }) => traffic !== undefined);
  const balanced = services.some(({ balance }) => balance !== undefined);
  const headings = [
    ...["name", "type", "frontends", "internal", "external", "endpoints"],
    ...(balanced ? ["balance"] : []),
    ...(counted ? ["conn/s", "bytes/s", "failed"] : []),
    ...["state", "notes"],
  ];
  return tableText(
    headings,
    services.map((service) => [
      service.name,
      service.type,
      `${frontendsOfService(service).join(",")}/${service.protocol.toUpperCase()}`,
      service.internal,
      hasExternalFrontends(service) ? service.external : "-",
      `${service.usedEndpoints}/${service.endpoints}`,
      ...(balanced ? [service.balance === undefined ? "-" : balanceText(service.balance)] : []),
      ...(counted ? trafficCells(service.traffic) : []),
      service.served ? service.effect?.state ?? "-" : "not served",
      notesOf(service),
    ]),
  );
}

/** Endpoints as a table for a terminal. */
export function endpointsTable(endpoints: readonly ListedEndpoint[]): string {
  const counted = endpoints.some(({ traffic }) => traffic !== undefined);
  const balanced = endpoints.some(({ shares }) => shares !== undefined);
  const headings = [
    ...["service", "endpoint", "node", "zone", "use"],
    ...(balanced ? ["share"] : []),
    ...(counted ? ["conn/s", "bytes/s"] : []),
    "why",
  ];
  return tableText(
    headings,
    endpoints.map((endpoint) => [
      endpoint.service,
      `${endpoint.target}/${endpoint.protocol.toUpperCase()}`,
      endpoint.node || "-",
      endpoint.zone || "-",
      endpoint.used ? "in" : "out",
      ...(balanced ? [sharesText(endpoint.shares ?? {}) || "-"] : []),
      ...(counted ? rateCells(endpoint.traffic) : []),
      endpoint.reason,
    ]),
  );
}

function rateCells(traffic: CountedTraffic | undefined): string[] {
  const { connections = 0, bytes = 0 } = traffic?.perSecond ?? {};
  return [rateText(connections), rateText(bytes)];
}

/** The rates, and the number of failed packets with their reasons. */
function trafficCells(traffic: ServiceTraffic | undefined): string[] {
  return [...rateCells(traffic), traffic === undefined ? "-" : failuresText(traffic) || "-"];
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
