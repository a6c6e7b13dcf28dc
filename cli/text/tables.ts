import {
  balanceText,
  type BrowsedService,
  failuresText,
  frontendsOfService,
  type ListedEndpoint,
  type ListedService,
  sharesText,
  stateOfService,
} from "../../answers/mod.ts";
import { type CountedTraffic, hasExternalFrontends, type ServiceTraffic } from "../../core/model/mod.ts";
import { printable, rateText } from "../../platform/mod.ts";
import type { Line, Piece } from "./lines.ts";

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
  /** Its text; undefined if the mode does not count it. */
  readonly of: (traffic: Partial<ServiceTraffic> & CountedTraffic) => string | undefined;
}

const TRAFFIC_COLUMNS: readonly TrafficColumn[] = [
  { heading: "conn/s", of: ({ perSecond }) => rateText(perSecond.connections) },
  { heading: "bytes/s", of: ({ perSecond: { bytes } }) => bytes === undefined ? undefined : rateText(bytes) },
  { heading: "failed", of: (traffic) => traffic.failures === undefined ? undefined : failuresText(traffic) || "-" },
];

/** The columns of the counts of a row. */
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
  const all = [headings.map((heading) => heading.toUpperCase()), ...rows.map((row) => row.map(printable))];
  const widths = headings.map((_, column) => Math.max(...all.map((row) => row[column]!.length)));
  return all.map((row) => `${row.map((cell, column) => cell.padEnd(widths[column]!)).join("  ").trimEnd()}\n`).join("");
}

/** The limits of the column of names; longer names are truncated. */
const WIDEST_NAME = 56, NARROWEST_NAME = 12;
/** The room for the state on a narrow terminal. */
const LEAST_STATE = 9;

/** The headings of `serviceRows` before the state, in their columns. */
const HEADINGS = { name: "SERVICE", family: "FAMILY", endpoints: "ENDPOINTS", rates: ["CONN/S", "BYTES/S"] };
/** The width of a rate with its heading. */
const RATE_WIDTH = 7;

/**
 * Service ports as aligned rows below headings: name, family, endpoints in use of all, rates if counted, state and reason.
 * In a terminal of few columns, names are truncated so that the state is visible.
 */
export function serviceRows(services: readonly BrowsedService[], columns: number): readonly Line[] {
  const isCounted = services.some(({ traffic }) => traffic !== undefined);
  const names = [HEADINGS, ...services].map(({ name }) => name);
  const endpoints = Math.max(HEADINGS.endpoints.length, ...services.map((one) => endpointsText(one).length));
  const afterName = (cells: typeof HEADINGS) =>
    `  ${cells.family.padEnd(6)}  ${cells.endpoints.padStart(endpoints)}  ${
      isCounted ? cells.rates.map((rate) => `${rate.padStart(RATE_WIDTH)}  `).join("") : ""
    }`;
  const room = Math.max(NARROWEST_NAME, columns - 2 - afterName(HEADINGS).length - LEAST_STATE);
  const name = Math.min(WIDEST_NAME, room, Math.max(...names.map(({ length }) => length)));
  const textOf = (cells: typeof HEADINGS) => `  ${cell(cells.name, name)}${afterName(cells)}`;
  return [
    [["soft", textOf(HEADINGS)], ["soft", "STATE"]],
    ...services.map((service): Line => [
      textOf({ ...service, endpoints: endpointsText(service), rates: ratesOf(service) }),
      stateOf(service),
    ]),
  ];
}

/** The rates; `-` for one that is not counted. */
function ratesOf({ traffic }: BrowsedService): string[] {
  const { connections, bytes } = traffic?.perSecond ?? {};
  return [connections, bytes].map((rate) => rate === undefined ? "-" : rateText(rate));
}

function endpointsText({ usedEndpoints, endpoints }: BrowsedService): string {
  return `${usedEndpoints}/${endpoints}`;
}

function cell(text: string, width: number): string {
  return text.length <= width ? text.padEnd(width) : `${text.slice(0, width - 1)}…`;
}

/** The problem of a service port, or whether it is in effect. */
function stateOf(service: BrowsedService): Piece {
  const { tone, notes: [note] } = stateOfService(service);
  return tone === "waiting" ? ["warning", "not in effect yet"] : [tone, note ?? "in effect"];
}
