/** What `sluice top` shows of the services, and the keys that change it. */
import { SERVICE_ORDERS } from "../../answers/mod.ts";
import type { BrowseQuestion } from "../../answers/mod.ts";

/** A view of the services. */
export interface TopView {
  readonly order: NonNullable<BrowseQuestion["order"]>;
  /** Only services whose name contains this. */
  readonly search: string;
  /** Whether keys are added to `search`. */
  readonly isTyping: boolean;
  /** Only broken services. */
  readonly attention: boolean;
  /** The number of services above the first one shown. */
  readonly offset: number;
}

/** The view at the start. */
export const FIRST_VIEW: TopView = { order: "broken", search: "", isTyping: false, attention: false, offset: 0 };

const QUIT = ["q", "Q", "\x03", "\x04"];
const STOP = ["\x03", "\x04"];
/** Keys that scroll, and by how much: in lines, or in screens. */
const LINES: Readonly<Record<string, number>> = { "\x1b[A": -1, "\x1bOA": -1, k: -1, "\x1b[B": 1, "\x1bOB": 1, j: 1 };
const SCREENS: Readonly<Record<string, number>> = { "\x1b[5~": -1, "\x1b[6~": 1, " ": 1 };
const HOME = ["g", "\x1b[H", "\x1b[1~", "\x1bOH"];
const END = ["G", "\x1b[F", "\x1b[4~", "\x1bOF"];

/** The keys, for the last line of the screen. */
export const KEY_HINTS = "q quit  s sort  / filter  b broken only  ↑↓ PgUp PgDn scroll";

/**
 * The view after a key; undefined if it quits.
 * @param rows the number of services on the screen
 * @param total the number of services selected
 * @param countsTraffic whether they can be sorted by traffic
 */
export function afterKey(
  view: TopView,
  key: string,
  { rows, total, countsTraffic = false }: {
    readonly rows: number;
    readonly total: number;
    readonly countsTraffic?: boolean;
  },
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

function orderAfter(order: TopView["order"], countsTraffic: boolean): TopView["order"] {
  const orders = SERVICE_ORDERS.filter((one) => one !== "traffic" || countsTraffic);
  return orders[(orders.indexOf(order) + 1) % orders.length]!;
}

function afterTyping(view: TopView, key: string): TopView {
  if (key === "\r" || key === "\n") return { ...view, isTyping: false };
  if (key === "\x1b") return { ...view, isTyping: false, search: "", offset: 0 };
  if (key === "\x7f" || key === "\b") return { ...view, search: view.search.slice(0, -1), offset: 0 };
  return /^[\x21-\x7e]$/.test(key) ? { ...view, search: view.search + key.toLowerCase(), offset: 0 } : view;
}
