import { type BrowsedService, stoppedTraffic } from "../../answers/mod.ts";
import { rateText } from "../../platform/mod.ts";
import type { Line, Piece, Style } from "./lines.ts";

/** The widest column of names; longer ones are truncated. */
const WIDEST_NAME = 56;

/** The headings of `serviceRows`, in their columns. */
const HEADINGS = {
  name: "SERVICE",
  family: "FAMILY",
  endpoints: "ENDPOINTS",
  rates: ["CONN/S", "BYTES/S"],
  state: "STATE",
};
/** The width of a rate with its heading. */
const RATE_WIDTH = 7;

/** Service ports as aligned rows: name, family, endpoints in use of all, rates if counted, state and reason. With headings if `isHeaded`. */
export function serviceRows(services: readonly BrowsedService[], isHeaded: boolean): readonly Line[] {
  const isCounted = services.some(({ traffic }) => traffic !== undefined);
  const headed = isHeaded ? [HEADINGS] : [];
  const names = [...services.map(({ name }) => name), ...headed.map(({ name }) => name)];
  const name = Math.min(WIDEST_NAME, Math.max(0, ...names.map(({ length }) => length)));
  const endpoints = Math.max(0, ...services.map((one) => endpointsText(one).length), headed.length * 9);
  const row = (columns: typeof HEADINGS, style: Style | undefined, rest: readonly Piece[]): Line => {
    const text = `  ${cell(columns.name, name)}  ${columns.family.padEnd(6)}  ${
      columns.endpoints.padStart(endpoints)
    }  ${isCounted ? columns.rates.map((rate) => `${rate.padStart(RATE_WIDTH)}  `).join("") : ""}`;
    return [style === undefined ? text : [style, text], ...rest];
  };
  return [
    ...headed.map((headings) => row(headings, "soft", [["soft", headings.state]])),
    ...services.map((service) => {
      const { style, state } = stateOf(service);
      const columns = {
        name: service.name,
        family: service.family,
        endpoints: endpointsText(service),
        rates: ratesOf(service),
        state,
      };
      return row(columns, undefined, [[style, state]]);
    }),
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

/** What is wrong with a service port, or that it is in effect. */
function stateOf(service: BrowsedService): { readonly style: Style; readonly state: string } {
  const { served, effect, problems } = service;
  const [note] = [...problems, ...stoppedTraffic(service)];
  if (!served || effect?.state === "refused") return { style: "bad", state: note ?? "not served" };
  if (effect?.state === "waiting") return { style: "warning", state: "not in effect yet" };
  return note === undefined ? { style: "good", state: "in effect" } : { style: "warning", state: note };
}
