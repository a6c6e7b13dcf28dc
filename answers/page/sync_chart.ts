import { sizeOfSync, type SyncSummary } from "../../observe/mod.ts";
import { type Html, html } from "./html.ts";
import { durationText, plural, timeOfDay } from "../../platform/mod.ts";

const SLOTS = 32;
const PITCH = 10;
const BAR = 7;
const UP = 44;
const DOWN = 18;
const BASE = UP + 2;

/**
 * The last syncs as bars, newest at the right: duration upwards, size downwards. Both scales are logarithmic, so that a
 * sync of one change stays visible beside a full one.
 */
export function syncChart(syncs: readonly SyncSummary[]): Html {
  const longest = Math.max(10, ...syncs.map(({ durationMs }) => durationMs));
  const largest = Math.max(10, ...syncs.map((sync) => sizeOfSync(sync).total));
  const width = SLOTS * PITCH - (PITCH - BAR);
  const shown = syncs.slice(0, SLOTS);
  const label = shown.length === 0
    ? "No sync yet"
    : `The last ${plural(shown.length, "sync")}; the newest took ${durationText(shown[0]!.durationMs)}`;
  return html`<svg class="chart" viewBox="0 0 ${width} ${
    UP + DOWN + 4
  }" preserveAspectRatio="none" role="img" aria-label="${label}">
<line class="base" x1="0" x2="${width}" y1="${BASE}" y2="${BASE}"/>
${shown.map((sync, i) => bar(sync, width - BAR - i * PITCH, longest, largest))}</svg>`;
}

function bar(sync: SyncSummary, x: number, longest: number, largest: number): Html {
  const size = sizeOfSync(sync);
  const up = round(2 + (UP - 2) * share(sync.durationMs, longest));
  const down = size.total === 0 ? 0 : round(2 + (DOWN - 2) * share(size.total, largest));
  return html`
    <g class="${!sync.ok ? "failed" : sync.problems > 0 ? "partly" : sync.full ? "full" : "delta"}">
      <title>${titleOf(sync, size.parts)}</title>
      <rect class="slot" x="${x - 1}" y="0" width="${BAR + 2}" height="${UP + DOWN + 4}" />
      <rect x="${x}" y="${round(BASE - 1 - up)}" width="${BAR}" height="${up}" rx="1.5" />
      <rect class="size" x="${x}" y="${BASE + 1}" width="${BAR}" height="${down}" rx="1.5" />
    </g>
  `;
}

function titleOf(sync: SyncSummary, parts: readonly string[]): string {
  const kind = sync.full ? "full sync" : "changes";
  const outcome = !sync.ok ? "failed" : sync.problems > 0 ? `${plural(sync.problems, "problem")}` : "ok";
  const written = parts.length === 0 ? "nothing to write" : parts.join(", ");
  return `${timeOfDay(sync.endedAtMs)} UTC, revision ${sync.revision}, ${kind}: ${durationText(sync.durationMs)}, ` +
    `${written}, ${outcome}`;
}

/** Scales a value logarithmically to a number from 0 to 1. */
function share(value: number, most: number): number {
  return Math.min(1, Math.log1p(Math.max(0, value)) / Math.log1p(most));
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
