import { HEIGHT } from "./svg.ts";

/** A measured value. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

/** The points of one program, from left to right. */
export interface Series {
  readonly label: string;
  readonly points: readonly Point[];
}

/** What a chart shows. */
export interface Chart {
  readonly title: string;
  readonly unit: string;
  readonly series: readonly Series[];
}

/** The width of one chart. */
export const PANEL_WIDTH = 440;

const LEFT = 56, RIGHT = PANEL_WIDTH - 92, TOP = 52, BOTTOM = HEIGHT - 48;

/** A line for each series over the number of services, both scales logarithmic, as the inside of an SVG group. */
export function chartOf({ title, unit, series }: Chart): string {
  const points = series.flatMap((one) => one.points);
  const sizes = [...new Set(points.map(({ x }) => x))].sort((a, b) => a - b);
  const decades = decadesAround(points.map(({ y }) => y));
  const x = scale(sizes[0]!, sizes.at(-1)!, LEFT, RIGHT), y = scale(decades[0]!, decades.at(-1)!, BOTTOM, TOP);
  return [
    `<text class="title" x="${LEFT}" y="28">${title}, ${unit}</text>`,
    ...decades.flatMap((value) => [
      `<line class="grid" x1="${LEFT}" x2="${RIGHT}" y1="${y(value)}" y2="${y(value)}"/>`,
      `<text x="${LEFT - 8}" y="${y(value) + 4}" text-anchor="end">${value.toLocaleString("en")}</text>`,
    ]),
    ...sizes.map((size) =>
      `<text x="${x(size)}" y="${BOTTOM + 18}" text-anchor="middle">${size.toLocaleString("en")}</text>`
    ),
    `<text x="${(LEFT + RIGHT) / 2}" y="${BOTTOM + 36}" text-anchor="middle">services of 3 endpoints</text>`,
    ...series.flatMap((one, i) => seriesLines(one, unit, i, x, y)),
  ].join("\n");
}

function seriesLines(
  { label, points }: Series,
  unit: string,
  index: number,
  x: (value: number) => number,
  y: (value: number) => number,
): string[] {
  const last = points.at(-1);
  if (last === undefined) return [];
  const path = points.map((point) => `${x(point.x)},${y(point.y)}`).join(" ");
  return [
    `<polyline class="line series-${index}" points="${path}"/>`,
    ...points.map((point) => mark(index, x(point.x), y(point.y))),
    `<text class="label series-${index}" x="${RIGHT + 10}" y="${y(last.y)}">${label}</text>`,
    `<text class="series-${index}" x="${RIGHT + 10}" y="${y(last.y) + 15}">${shortNumber(last.y)} ${unit}</text>`,
  ];
}

/** Told apart without colour too: a square for the first series, a disc for the second. */
function mark(index: number, x: number, y: number): string {
  return index === 0
    ? `<rect class="mark series-0" x="${x - 4}" y="${y - 4}" width="8" height="8"/>`
    : `<circle class="mark series-${index}" cx="${x}" cy="${y}" r="4.5"/>`;
}

function scale(from: number, to: number, start: number, end: number): (value: number) => number {
  return (value) => Math.round(start + (end - start) * Math.log(value / from) / Math.log(to / from));
}

/** The powers of ten from below the least value to above the greatest. */
function decadesAround(values: readonly number[]): number[] {
  const first = Math.floor(Math.log10(Math.min(...values))), last = Math.ceil(Math.log10(Math.max(...values)));
  return Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i));
}

function shortNumber(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(2);
}
