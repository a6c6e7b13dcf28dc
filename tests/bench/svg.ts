/** The height of the whole drawing. */
export const HEIGHT = 320;

// Backgrounds of its own, since the page around it may be light while the reader's system is dark.
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
