/** The status of a running proxy as lines for a terminal: the status page in text. */
import type { NodeView } from "../../answers/status/mod.ts";
import { attentionText, type BrowseQuestion, SERVICE_ORDERS, type ServicePage } from "../../answers/mod.ts";
import { countText } from "../../platform/mod.ts";
import { type Layout, type Line, PLAIN, textOf } from "./lines.ts";
import { serviceRows } from "./tables.ts";
import { problemLines, viewLines } from "./status_text.ts";

/** The content of the report. */
export interface TopContent {
  readonly status: NodeView;
  /** The services on the screen; undefined if unknown. */
  readonly services: ServicePage | undefined;
  /** The reason why the status is out of date; undefined while the proxy answers. */
  readonly trouble: string | undefined;
}

/** The lines of a report that stays: services that need attention and all problems. */
export function topLines(status: NodeView, needy: ServicePage | undefined): readonly string[] {
  const lines = [...viewLines(status, { details: true }), ...needyLines(status, needy), ...problemLines(status)];
  return lines.map((line) => textOf(line, PLAIN));
}

interface ScreenLayout extends Layout {
  readonly rows: number;
}

/** A screen of the report. Problems take at most half of the room; services get the rest. */
export function topScreen(
  { status, services, trouble }: TopContent,
  view: TopView,
  layout: ScreenLayout,
): readonly string[] {
  const above = linesAbove({ status, trouble }, layout);
  const rows: readonly Line[] = services === undefined
    ? [[["soft", "  the services have not been read yet"]]]
    : serviceRows(services.services, layout.columns);
  const shown = [...above, [], titleLine(services, view), ...rows].slice(0, layout.rows - 1);
  const blank = Array.from({ length: Math.max(0, layout.rows - 1 - shown.length) }, (): Line => []);
  return [...shown, ...blank, hintLine(view)].slice(-layout.rows).map((line) => textOf(line, layout));
}

/** The number of services that fit on a screen. */
export function roomForServices(content: Pick<TopContent, "status" | "trouble">, layout: ScreenLayout): number {
  // A blank line, the title, the headings, and the hints.
  return Math.max(1, layout.rows - linesAbove(content, layout).length - 4);
}

function linesAbove(
  { status, trouble }: Pick<TopContent, "status" | "trouble">,
  { rows }: ScreenLayout,
): readonly Line[] {
  const head = viewLines(status, { details: true, trouble });
  return [...head, ...problemLines(status).slice(0, Math.max(0, Math.floor((rows - head.length) / 2)))];
}

const ORDER_WORDS: Readonly<Record<TopView["order"], string>> = {
  attention: "needing attention first",
  name: "by name",
  endpoints: "fewest endpoints first",
  changed: "last changed first",
  traffic: "most traffic first",
};

function titleLine(page: ServicePage | undefined, { order, search, attention, offset }: TopView): Line {
  if (page === undefined) return [["bold", "Services"]];
  const { total, attention: needs, services } = page;
  const needy = attentionText(needs);
  const first = countText(services.length === 0 ? 0 : offset + 1), last = countText(offset + services.length);
  const choice = `${attention ? "needing attention only, " : ""}${ORDER_WORDS[order]}`;
  return [
    ["bold", "Services"],
    `  ${first}–${last} of ${countText(total)}`,
    ...(needy === "" ? [] : [[needs.refused > 0 ? "bad" : "warning", `  ${needy}`] as const]),
    ["soft", `  ${choice}${search === "" ? "" : `, filter ${search}`}`],
  ];
}

function hintLine({ isTyping, search }: TopView): Line {
  return isTyping
    ? [["bold", `/${search}`], ["soft", "▏  Enter keeps the filter, Esc removes it"]]
    : [["soft", KEY_HINTS]];
}

function needyLines({ node }: NodeView, needy: ServicePage | undefined): Line[] {
  if (needy === undefined || needy.total === 0) return [];
  return [
    [],
    [["bold", "Services that need attention"], ["soft", `  ${attentionText(needy.attention)}`]],
    ...serviceRows(needy.services, Infinity),
    ...(needy.pages > 1 ? [[["soft", `  and more: the status page of ${node} finds them`] as const]] : []),
  ];
}

/** A view of the services. */
export interface TopView {
  readonly order: NonNullable<BrowseQuestion["order"]>;
  readonly search: string;
  /** Whether keys are added to `search`. */
  readonly isTyping: boolean;
  readonly attention: boolean;
  /** The scroll offset: the number of services above the first one shown. */
  readonly offset: number;
}

/** The view at the start. */
export const FIRST_VIEW: TopView = { order: "attention", search: "", isTyping: false, attention: false, offset: 0 };

const QUIT = ["q", "Q", "\x03", "\x04"];
const STOP = ["\x03", "\x04"];
/** Keys that scroll, and by how much: in lines, or in screens. */
const LINES: Readonly<Record<string, number>> = { "\x1b[A": -1, "\x1bOA": -1, k: -1, "\x1b[B": 1, "\x1bOB": 1, j: 1 };
const SCREENS: Readonly<Record<string, number>> = { "\x1b[5~": -1, "\x1b[6~": 1, " ": 1 };
const HOME = ["g", "\x1b[H", "\x1b[1~", "\x1bOH"];
const END = ["G", "\x1b[F", "\x1b[4~", "\x1bOF"];

const KEY_HINTS = "q quit  s sort  / filter  b attention only  ↑↓ PgUp PgDn scroll";

/**
 * The view after a key; undefined if it quits.
 * @param rows the number of services on the screen
 */
export function afterKey(
  view: TopView,
  key: string,
  rows: number,
  { total, countsTraffic }: Pick<ServicePage, "total" | "countsTraffic"> = { total: 0 },
): TopView | undefined {
  if (view.isTyping) return STOP.includes(key) ? undefined : afterTyping(view, key);
  if (QUIT.includes(key)) return undefined;
  const scrolled = (offset: number): TopView => ({ ...view, offset: Math.max(0, Math.min(offset, total - rows)) });
  const lines = LINES[key], screens = SCREENS[key];
  if (lines !== undefined) return scrolled(view.offset + lines);
  if (screens !== undefined) return scrolled(view.offset + screens * rows);
  if (HOME.includes(key)) return scrolled(0);
  if (END.includes(key)) return scrolled(total);
  switch (key) {
    case "s":
      return { ...view, offset: 0, order: orderAfter(view.order, countsTraffic) };
    case "b":
      return { ...view, offset: 0, attention: !view.attention };
    case "/":
      return { ...view, isTyping: true };
    case "\x1b":
      return { ...view, search: "", offset: 0 };
    default:
      return view;
  }
}

function orderAfter(order: TopView["order"], countsTraffic: true | undefined): TopView["order"] {
  const orders = SERVICE_ORDERS.filter((one) => one !== "traffic" || countsTraffic);
  return orders[(orders.indexOf(order) + 1) % orders.length]!;
}

function afterTyping(view: TopView, key: string): TopView {
  if (key === "\r" || key === "\n") return { ...view, isTyping: false };
  if (key === "\x1b") return { ...view, isTyping: false, search: "", offset: 0 };
  if (key === "\x7f" || key === "\b") return { ...view, search: view.search.slice(0, -1), offset: 0 };
  return /^[\x21-\x7e]$/.test(key) ? { ...view, search: view.search + key.toLowerCase(), offset: 0 } : view;
}
