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
  const columns = columnsOf(services);
  const balanced = services.some(({ balance }) => balance !== undefined);
  const headings = [
    ...["name", "type", "frontends", "internal", "external", "endpoints"],
    ...(balanced ? ["balance"] : []),
    ...columns.map(({ heading }) => heading),
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
      ...columns.map(({ cell }) => cell(service.traffic)),
      service.served ? service.effect?.state ?? "-" : "not served",
      notesOf(service),
    ]),
  );
}

/** Endpoints as a table for a terminal. */
export function endpointsTable(endpoints: readonly ListedEndpoint[]): string {
  const columns = columnsOf(endpoints);
  const balanced = endpoints.some(({ shares }) => shares !== undefined);
  const headings = [
    ...["service", "endpoint", "node", "zone", "use"],
    ...(balanced ? ["share"] : []),
    ...columns.map(({ heading }) => heading),
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
      ...columns.map(({ cell }) => cell(endpoint.traffic)),
      endpoint.reason,
    ]),
  );
}

/** A column of traffic. */
interface TrafficColumn {
  readonly heading: string;
  /** What it shows; undefined if that is not counted. */
  readonly of: (traffic: Partial<ServiceTraffic> & CountedTraffic) => string | undefined;
}

const TRAFFIC_COLUMNS: readonly TrafficColumn[] = [
  { heading: "conn/s", of: ({ perSecond }) => rateText(perSecond.connections) },
  { heading: "bytes/s", of: ({ perSecond: { bytes } }) => bytes === undefined ? undefined : rateText(bytes) },
  { heading: "failed", of: (traffic) => traffic.failures === undefined ? undefined : failuresText(traffic) || "-" },
];

/** The columns of what is counted of some row. */
function columnsOf(rows: readonly { readonly traffic?: ServiceTraffic }[]) {
  return TRAFFIC_COLUMNS
    .filter(({ of }) => rows.some(({ traffic }) => traffic !== undefined && of(traffic) !== undefined))
    .map(({ heading, of }) => ({
      heading,
      cell: (traffic: ServiceTraffic | undefined) => traffic && of(traffic) || "-",
    }));
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
