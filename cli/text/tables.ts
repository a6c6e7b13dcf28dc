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
import { hasExternalFrontends, type ServiceTraffic } from "../../core/model/mod.ts";
import { rateText } from "../../platform/mod.ts";
import { alignedLines, type Line, type Piece, PLAIN, textOf } from "./lines.ts";

/** A column of a table: its heading, and the text of a row. */
type Column<Row> = readonly [heading: string, cell: (row: Row) => string | undefined];

/** Service ports as a table for a terminal. */
export function servicesTable(services: readonly ListedService[]): string {
  return tableText(services, [
    ["name", ({ name }) => name],
    ["type", ({ type }) => type],
    ["frontends", (service) => `${frontendsOfService(service).join(",")}/${service.protocol.toUpperCase()}`],
    ["internal", ({ internal }) => internal],
    ["external", (service) => hasExternalFrontends(service) ? service.external : "-"],
    ["endpoints", endpointsText],
    ...columnsInUse<ListedService>(services, [
      ["balance", ({ balance }) => balance && balanceText(balance)],
      ...TRAFFIC_COLUMNS,
    ]),
    ["state", ({ served, effect }) => served ? effect?.state ?? "-" : "not served"],
    ["notes", notesOf],
  ]);
}

/** Endpoints as a table for a terminal. */
export function endpointsTable(endpoints: readonly ListedEndpoint[]): string {
  return tableText(endpoints, [
    ["service", ({ service }) => service],
    ["endpoint", ({ target, protocol }) => `${target}/${protocol.toUpperCase()}`],
    ["node", ({ node }) => node || "-"],
    ["zone", ({ zone }) => zone || "-"],
    ["use", ({ used }) => used ? "in" : "out"],
    ...columnsInUse<ListedEndpoint>(endpoints, [
      ["share", ({ shares }) => shares && sharesText(shares)],
      ...TRAFFIC_COLUMNS,
    ]),
    ["why", ({ reason }) => reason],
  ]);
}

/** The counts of a row; undefined if the mode does not count them. */
const TRAFFIC_COLUMNS: readonly Column<{ readonly traffic?: ServiceTraffic }>[] = [
  ["conn/s", ({ traffic }) => traffic && rateText(traffic.perSecond.connections)],
  ["bytes/s", ({ traffic }) => {
    const bytes = traffic?.perSecond.bytes;
    return bytes === undefined ? undefined : rateText(bytes);
  }],
  ["failed", ({ traffic }) => traffic?.failures && failuresText(traffic)],
];

/** The columns with a text in any row. A row without text has a dash. */
function columnsInUse<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): readonly Column<Row>[] {
  return columns.filter(([, cell]) => rows.some((row) => cell(row) !== undefined))
    .map(([heading, cell]) => [heading, (row) => cell(row) || "-"]);
}

function tableText<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string {
  const headings = columns.map(([heading]) => heading.toUpperCase());
  const cells = rows.map((row) => columns.map(([, cell]) => cell(row) ?? ""));
  return alignedLines([headings, ...cells]).map((line) => `${textOf(line, PLAIN)}\n`).join("");
}

function notesOf({ problems, affinitySeconds, effect }: ListedService): string {
  return [
    ...(effect?.refusal === undefined ? [] : [effect.refusal]),
    ...(affinitySeconds > 0 ? [`affinity ${affinitySeconds} s`] : []),
    ...problems,
  ].join("; ");
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
  const afterName = (cells: typeof HEADINGS) => {
    const rates = isCounted ? cells.rates.map((rate) => `${rate.padStart(RATE_WIDTH)}  `).join("") : "";
    return `  ${cells.family.padEnd(6)}  ${cells.endpoints.padStart(endpoints)}  ${rates}`;
  };
  const room = Math.max(NARROWEST_NAME, columns - 2 - afterName(HEADINGS).length - LEAST_STATE);
  const name = Math.min(WIDEST_NAME, room, Math.max(...names.map(({ length }) => length)));
  const rowText = (cells: typeof HEADINGS) => `  ${cell(cells.name, name)}${afterName(cells)}`;
  return [
    [["soft", rowText(HEADINGS)], ["soft", "STATE"]],
    ...services.map((service): Line => [
      rowText({ ...service, endpoints: endpointsText(service), rates: ratesOf(service) }),
      stateOf(service),
    ]),
  ];
}

/** The rates; `-` for one that is not counted. */
function ratesOf({ traffic }: BrowsedService): string[] {
  const { connections, bytes } = traffic?.perSecond ?? {};
  return [connections, bytes].map((rate) => rate === undefined ? "-" : rateText(rate));
}

function endpointsText({ usedEndpoints, endpoints }: Pick<BrowsedService, "usedEndpoints" | "endpoints">): string {
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
