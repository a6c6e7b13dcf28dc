/** A measured value. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

/** The points of one program, ordered by x. */
export interface Series {
  readonly label: string;
  readonly points: readonly Point[];
}

/** The contents of a chart. */
export interface Chart {
  readonly title: string;
  readonly unit: string;
  readonly series: readonly Series[];
}

/** The width of one chart. */
export const PANEL_WIDTH = 440;

const HEIGHT = 320;
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

/** Series differ in shape as well as colour: squares for the first, discs for the others. */
function mark(index: number, x: number, y: number): string {
  return index === 0
    ? `<rect class="mark series-0" x="${x - 4}" y="${y - 4}" width="8" height="8"/>`
    : `<circle class="mark series-${index}" cx="${x}" cy="${y}" r="4.5"/>`;
}

function scale(from: number, to: number, start: number, end: number): (value: number) => number {
  return (value) => Math.round(start + (end - start) * Math.log(value / from) / Math.log(to / from));
}

/** The powers of ten that enclose all values. */
function decadesAround(values: readonly number[]): number[] {
  const first = Math.floor(Math.log10(Math.min(...values))), last = Math.ceil(Math.log10(Math.max(...values)));
  return Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i));
}

function shortNumber(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(2);
}

// Has its own background: the page around it may be light while the reader's system is dark.
const STYLE = `
  :root { --ground: #ffffff; --text: #1f2328; --quiet: #59636e; --grid: #d8dee4; --series-0: #b8500f; --series-1: #1f6fd0 }
  @media (prefers-color-scheme: dark) {
    :root { --ground: #0d1117; --text: #f0f6fc; --quiet: #9198a1; --grid: #2a313a; --series-0: #f0883e; --series-1: #58a6ff }
  }
  text { font: 12px system-ui, sans-serif; fill: var(--quiet) }
  .title { font-size: 14px; font-weight: 600; fill: var(--text) }
  .grid { stroke: var(--grid) }
  .line { fill: none; stroke-width: 2 }
  .series-0 { stroke: var(--series-0) } text.series-0, .mark.series-0 { fill: var(--series-0); stroke: none }
  .series-1 { stroke: var(--series-1) } text.series-1, .mark.series-1 { fill: var(--series-1); stroke: none }
  .label { font-weight: 600 }`;

/** An SVG file of panels side by side, for light and dark pages. */
export function svgDocument(panels: readonly string[], panelWidth: number, description: string): string {
  const width = panels.length * panelWidth;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${HEIGHT}" width="${width}" height="${HEIGHT}" role="img">`,
    `<title>${description}</title>`,
    `<style>${STYLE}\n</style>`,
    `<rect width="${width}" height="${HEIGHT}" rx="6" fill="var(--ground)"/>`,
    ...panels.map((panel, i) => `<g transform="translate(${i * panelWidth} 0)">\n${panel}\n</g>`),
    "</svg>\n",
  ].join("\n");
}
