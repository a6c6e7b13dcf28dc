import type { SyncSummary } from "../../observe/mod.ts";
import { sizeOfSync } from "../status/mod.ts";
import { type Html, html, moment, round } from "./html.ts";
import { countText, durationText, plural, timeOfDay } from "../../platform/mod.ts";

/** The number of bars; style.ts has a column of the time axis for each. */
export const SLOTS = 32;
const PITCH = 10;
const BAR = 7;
const UP = 44;
const DOWN = 18;
const BASE = UP + 2;
/** The minimum distance between two labels of the time axis, in bars. */
const BETWEEN_LABELS = 12;

const KINDS = { full: "full sync", delta: "changes", partly: "with problems", failed: "failed" } as const;

/**
 * The last syncs as bars, newest at the right: duration upwards, size downwards. Both scales are logarithmic, so that a
 * sync of one change stays visible beside a full one.
 */
export function syncChart(syncs: readonly SyncSummary[]): Html {
  const longest = Math.max(...syncs.map(({ durationMs }) => durationMs));
  const largest = Math.max(...syncs.map((sync) => sizeOfSync(sync).total));
  const width = SLOTS * PITCH - (PITCH - BAR);
  const shown = syncs.slice(0, SLOTS);
  const label = `The last ${plural(shown.length, "sync")}; the newest took ${durationText(shown[0]?.durationMs ?? 0)}`;
  const bars = shown.map((sync, i) =>
    bar(sync, width - BAR - i * PITCH, { longest: Math.max(10, longest), largest: Math.max(10, largest) })
  );
  return html`
    <svg class="chart" viewBox="0 0 ${width} ${UP + DOWN +
      4}" preserveAspectRatio="none" role="img" aria-label="${label}">
    <line class="base" x1="0" x2="${width}" y1="${BASE}" y2="${BASE}"/>
    ${bars}</svg>
    ${timeAxis(shown)}
    <p
      class="legend">${legend(shown)}<span><i class="size"></i>written</span><span class="scale">up to ${durationText(
        longest,
      )}, ${countText(largest)} written</span></p>
  `;
}

/** The times of some bars, each below its bar. */
function timeAxis(syncs: readonly SyncSummary[]): Html {
  const labelled: { readonly slot: number; readonly sync: SyncSummary }[] = [];
  for (const [i, sync] of syncs.entries()) {
    const slot = SLOTS - i, before = labelled.at(-1);
    if (before === undefined || before.slot - slot >= BETWEEN_LABELS) labelled.push({ slot, sync });
  }
  return html`<p class="axis">${
    labelled.reverse().map(({ slot, sync }) => html`<span class="at-${slot}">${moment(sync.endedAtMs)}</span>`)
  }</p>`;
}

function legend(syncs: readonly SyncSummary[]): readonly Html[] {
  const kinds = new Set(syncs.map(kindOf));
  return Object.entries(KINDS).filter(([kind]) => kinds.has(kind as keyof typeof KINDS))
    .map(([kind, words]) => html`<span><i class="${kind}"></i>${words}</span>`);
}

function kindOf({ ok, problems, full }: SyncSummary): keyof typeof KINDS {
  return !ok ? "failed" : problems > 0 ? "partly" : full ? "full" : "delta";
}

function bar(sync: SyncSummary, x: number, scale: { readonly longest: number; readonly largest: number }): Html {
  const size = sizeOfSync(sync);
  const up = round(2 + (UP - 2) * share(sync.durationMs, scale.longest));
  const down = size.total === 0 ? 0 : round(2 + (DOWN - 2) * share(size.total, scale.largest));
  return html`
    <g class="${kindOf(sync)}">
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
