import { SLOTS } from "./sync_chart.ts";

/** Places a label of the time axis below its bar: to the left of the bar's right edge, or at the left end of the axis. */
const LABEL_COLUMNS = Array.from({ length: SLOTS }, (_, i) => {
  const slot = i + 1;
  return slot < 8
    ? `.at-${slot} { grid-column: ${slot} / span 9; }`
    : `.at-${slot} { grid-column: ${slot - 7} / ${slot + 1}; text-align: right; }`;
}).join("\n");

/** The page's style: light or dark as the reader's system prefers, and for screens from a phone's width up. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --page: #f5f6f3; --card: #ffffff; --ink: #18211f; --soft: #56635f; --line: #e0e4df; --hover: #f1f4f1;
  --accent: #0b6e65; --bar: #4d9d94; --bar-full: #0b6e65; --size: #b9cfc9;
  --good: #1f8a4c; --warning: #a15c00; --bad: #b3261e; --idle: #7c8885;
  --tint-warning: #fbf0dc; --tint-bad: #fbe9e7; --tint-idle: #eef0ee;
  --sans: Inter, "Segoe UI Variable Text", "Segoe UI", system-ui, -apple-system, Roboto, "Noto Sans", sans-serif;
  --mono: ui-monospace, "SF Mono", "Cascadia Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #101514; --card: #181e1d; --ink: #e4eae7; --soft: #9daaa5; --line: #2a3230; --hover: #1e2624;
    --accent: #6fd3c6; --bar: #3f8f86; --bar-full: #7fdccf; --size: #35504b;
    --good: #5cc98a; --warning: #e5b25d; --bad: #f28b82; --idle: #8a9692;
    --tint-warning: #2e2615; --tint-bad: #351d1b; --tint-idle: #232a28;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; max-width: 82rem; padding: 1.75rem 1.25rem 3rem; background: var(--page); color: var(--ink);
  overflow-wrap: anywhere; font: 15px/1.5 var(--sans); font-variant-numeric: tabular-nums; -webkit-font-smoothing: antialiased;
}
h1, h2, h3, p, dl, dd, ul, ol, table { margin: 0; padding: 0; }
h1 { font-size: 1.4rem; font-weight: 650; letter-spacing: -0.015em; line-height: 1.2; }
h2, h3 { font-size: 1rem; letter-spacing: -0.005em; }
h2 { flex: none; font-weight: 650; }
h3 { font-weight: 400; }
a { color: var(--accent); text-underline-offset: 0.2em; text-decoration-thickness: 1px; }
code { font: 0.87em/1.5 var(--mono); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 4px; }
.quiet, .legend, .count, .hint, .facts { color: var(--soft); font-size: 0.87rem; }
.note { color: var(--warning); font-size: 0.9rem; }

.top { display: grid; grid-template-columns: 1fr auto; align-items: center; gap: 0.35rem 1rem; margin-bottom: 1.25rem; }
.brand { display: flex; align-items: center; gap: 0.65rem; }
.logo { width: 1.9rem; height: 1.9rem; color: var(--accent); flex: none; }
.connection { color: var(--soft); font-size: 0.87rem; }
.live .connection::before, .lost .connection::before {
  content: ""; display: inline-block; width: 0.5rem; height: 0.5rem; border-radius: 50%; background: var(--good);
  margin-right: 0.45rem;
}
.lost .connection { color: var(--bad); }
.lost .connection::before { background: var(--bad); }
.lost main { opacity: 0.55; }

.card { background: var(--card); border: 1px solid var(--line); border-radius: 14px; padding: 1.15rem 1.3rem; }
main { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1rem; }
.overview { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(21rem, 100%), 1fr)); }
.families { display: contents; }
.family { display: flex; flex-direction: column; }
.changes { display: grid; grid-template-rows: auto 1fr; min-height: 15rem; }
.changes header { display: flex; justify-content: space-between; align-items: baseline; margin-bottom: 0.5rem; }
.changes > div { contain: size; min-height: 12rem; overflow-y: auto; scrollbar-width: thin; margin-right: -0.6rem; padding-right: 0.6rem; }
.events { list-style: none; font-size: 0.87rem; }
.events li { display: grid; grid-template-columns: auto 1fr; gap: 0.75rem; padding: 0.22rem 0; border-top: 1px solid var(--line); }
.events li:first-child { border-top: 0; }
.events .at { color: var(--soft); font: 0.95em/1.6 var(--mono); }
.events b { font-weight: 600; }
.events .bad { color: var(--bad); }
.events .warning { color: var(--warning); }
.events .good b { color: var(--good); }
.events .waiting { font-style: italic; }

.dot { display: inline-block; flex: none; width: 0.6rem; height: 0.6rem; border-radius: 50%; background: var(--idle); }
.good .dot { background: var(--good); }
.warning .dot { background: var(--warning); }
.bad .dot { background: var(--bad); }

.summary { display: grid; gap: 0.5rem; }
.verdict { display: flex; align-items: baseline; gap: 0.75rem; min-width: 0; }
.verdict .dot { width: 0.8rem; height: 0.8rem; }
.verdict strong { display: block; font-size: 1.35rem; font-weight: 650; letter-spacing: -0.015em; line-height: 1.3; }
.verdict .reason { display: block; }
.verdict strong::first-letter { text-transform: uppercase; }
.verdict.bad strong { color: var(--bad); }
.verdict.warning strong { color: var(--warning); }
.summary:has(.verdict.bad) { border-color: var(--bad); background: var(--tint-bad); }
.summary:has(.verdict.warning) { border-color: var(--warning); background: var(--tint-warning); }
.link { display: flex; align-items: baseline; gap: 0.85rem; padding-left: 0.1rem; font-size: 0.9rem; }
.state { display: flex; align-items: baseline; gap: 0.55rem; }
.state.bad { color: var(--bad); }
.state.warning { color: var(--warning); }
.trouble:empty { display: none; }
.counts { display: flex; flex-wrap: wrap; gap: 0.4rem 2.2rem; margin-top: 0.3rem; }
.counts dt { color: var(--soft); font-size: 0.8rem; }
.counts dd { font-weight: 600; letter-spacing: -0.01em; }

.family header { display: flex; justify-content: space-between; align-items: center; gap: 0.5rem 1rem; }
.family header .state { font-size: 0.9rem; }
.family header .state.good, .family header .state.idle { color: var(--soft); }
.family.bad { border-color: var(--bad); }
.reason { color: var(--soft); }
.family .reason { margin-top: 0.6rem; padding: 0.55rem 0.75rem; border-radius: 8px; font-size: 0.87rem; color: var(--ink);
  background: var(--tint-idle); }
.family.bad .reason { background: var(--tint-bad); }
.family.warning .reason { background: var(--tint-warning); }
.chart { display: block; width: 100%; height: 72px; margin: 0.9rem 0 0.25rem; }
.chart .base { stroke: var(--line); stroke-width: 1; }
.chart rect { fill: var(--bar); }
.chart .full rect { fill: var(--bar-full); }
.chart .partly rect { fill: var(--warning); }
.chart .failed rect { fill: var(--bad); }
.chart rect.size { fill: var(--size); }
.chart rect.slot { fill: transparent; }
.chart g:hover rect.slot { fill: var(--line); }
.axis { display: grid; grid-template-columns: repeat(${SLOTS}, 1fr); font-size: 0.75rem; color: var(--soft); }
.axis span { grid-row: 1; white-space: nowrap; }
${LABEL_COLUMNS}
.legend { display: flex; flex-wrap: wrap; gap: 0.1rem 0.9rem; margin: 0.3rem 0 0.7rem; font-size: 0.8rem; }
.legend span { display: flex; align-items: center; gap: 0.35rem; }
.legend i { width: 0.65rem; height: 0.65rem; border-radius: 2px; background: var(--bar); }
.legend i.full { background: var(--bar-full); }
.legend i.partly { background: var(--warning); }
.legend i.failed { background: var(--bad); }
.legend i.size { background: var(--size); }
.legend .scale { flex-basis: 100%; }
.rows div { display: flex; justify-content: space-between; gap: 1rem; padding: 0.32rem 0; border-top: 1px solid var(--line); }
.rows dt { flex: none; color: var(--soft); }
.rows dd { text-align: right; }
.rows em { font-style: normal; color: var(--warning); }
.problems, .occurrences { list-style: none; display: grid; gap: 0.9rem; margin-top: 0.6rem; }
.problems > li { padding: 0.1rem 0 0.1rem 0.9rem; border-left: 3px solid var(--warning); }
.problems > li.bad { border-color: var(--bad); }
.problems .title strong::first-letter { text-transform: uppercase; }
.problems .title strong { display: inline-block; font-weight: 650; }
.problems > .bad > .title strong { color: var(--bad); }
.problems > .warning > .title strong { color: var(--warning); }
.problems .title code, .problems .where { color: var(--soft); font-size: 0.87rem; font-weight: 400; }
.occurrences { gap: 0.35rem; margin: 0.25rem 0; font-size: 0.93rem; }
.occurrences b { font-weight: 600; }
.problems .fix b { color: var(--accent); font-weight: 600; }
details > summary { cursor: pointer; }
details[data-key^="problems"] > summary { color: var(--accent); font-size: 0.9rem; margin-top: 0.6rem; }

.bar { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 0.7rem 1.5rem; }
form { display: flex; flex-wrap: wrap; align-items: center; gap: 0.5rem 0.75rem; }
form label { min-width: 0; }
form label > span { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
form.live button { display: none; }
input[type="search"], input[list], select, button {
  font: inherit; color: inherit; background: var(--page); border: 1px solid var(--line); border-radius: 9px;
  padding: 0.4rem 0.75rem;
}
input[type="search"] { width: 19rem; max-width: 100%; }
input[list] { width: 11rem; }
select { max-width: 14rem; }
input::placeholder { color: var(--soft); opacity: 1; }
input[type="checkbox"] { accent-color: var(--accent); width: 1rem; height: 1rem; margin: 0; }
button { cursor: pointer; }
.check { display: flex; align-items: center; gap: 0.45rem; font-size: 0.9rem; color: var(--soft); }
.count { margin: 0.5rem 0 0.35rem; }

.service { border-top: 1px solid var(--line); }
.service .why { grid-column: 1 / -1; padding-left: 1.2rem; font-size: 0.87rem; color: var(--soft); }
.service.bad .why, .service.bad .name { color: var(--bad); }
.service.warning .why { color: var(--warning); }
.service.waiting .dot { background: transparent; border: 2px solid var(--idle); }
.service > summary {
  display: grid; grid-template-columns: minmax(14rem, 2fr) minmax(9rem, 1fr) minmax(12rem, 2fr) 9rem; gap: 0.15rem 1rem;
  align-items: center; padding: 0.55rem 0.5rem; margin: 0 -0.5rem; cursor: pointer; list-style: none; border-radius: 8px;
}
.service > summary::-webkit-details-marker { display: none; }
.service > summary:hover { background: var(--hover); }
.name { display: flex; align-items: baseline; gap: 0.6rem; font-weight: 600; }
.namespace { color: var(--soft); font-weight: 400; }
.kind, .protocol { color: var(--soft); font-size: 0.87rem; }
.family-tag { font-size: 0.75rem; border: 1px solid var(--line); border-radius: 5px; padding: 0.05rem 0.3rem; margin-left: 0.25rem; }
.frontends { line-height: 1.35; }
.share { display: flex; align-items: center; justify-content: flex-end; gap: 0.6rem; white-space: nowrap; }
.share .of { color: var(--soft); }
.traffic { grid-column: 3 / -1; justify-self: end; color: var(--soft); font-size: 0.87rem; white-space: nowrap; }
.meter { width: 48px; height: 8px; }
.lit { fill: var(--bar); }
.unlit { fill: var(--line); }
.more { display: grid; gap: 0.5rem; padding: 0.2rem 0 1.1rem 1.2rem; }
.scroll { overflow-x: auto; }
.endpoints { border-collapse: collapse; min-width: 100%; font-size: 0.9rem; overflow-wrap: normal; }
.endpoints code { overflow-wrap: anywhere; }
.endpoints th { text-align: left; font-weight: 400; color: var(--soft); font-size: 0.8rem; padding: 0 1.2rem 0.2rem 0; }
.endpoints td { padding: 0.22rem 1.2rem 0.22rem 0; border-top: 1px solid var(--line); vertical-align: baseline; }
.endpoints td:first-child { font-weight: 600; color: var(--good); width: 3rem; }
.endpoints .out td:first-child { color: var(--warning); }
.endpoints .out td { color: var(--soft); }
.here { font-size: 0.75rem; color: var(--accent); border: 1px solid var(--line); border-radius: 5px; padding: 0.05rem 0.3rem; white-space: nowrap; }
.explanation { display: grid; gap: 0.6rem; padding-top: 0.9rem; }
.explanation + .explanation { margin-top: 0.9rem; border-top: 1px solid var(--line); }
.outcomes { list-style: none; display: grid; gap: 0.35rem; }
.outcomes li { display: flex; align-items: baseline; gap: 0.55rem; }
.outcomes .bad strong { color: var(--bad); }
.rows.policies dd { flex: 1 1 60%; text-align: left; }
.rows.policies dt { flex: 1 1 40%; }
.explanation summary { color: var(--accent); font-size: 0.9rem; padding: 0.2rem 0; }
pre { font: 0.8rem/1.5 var(--mono); margin: 0.3rem 0 0; overflow-x: auto; }
.pages { display: flex; justify-content: center; gap: 1.5rem; padding-top: 0.9rem; border-top: 1px solid var(--line); }
.pages .off { color: var(--idle); }
footer { display: flex; flex-wrap: wrap; gap: 0.3rem 1.2rem; margin-top: 1.3rem; font-size: 0.87rem; }
footer a { color: var(--soft); }

@media (max-width: 46rem) {
  body { padding: 1rem 0.75rem 2rem; }
  .card { padding: 1rem; border-radius: 12px; }
  .top { grid-template-columns: 1fr; }
  .counts { flex-direction: column; gap: 0.2rem; }
  .counts div { display: flex; align-items: baseline; gap: 0.75rem; }
  .counts dt { flex: 0 0 4.5rem; }
  .changes, .changes > div { min-height: 0; }
  .changes > div { contain: none; max-height: 20rem; }
  .verdict strong { font-size: 1.2rem; }
  form, form label:first-child, form label:has(select), form label:has([list]), input[type="search"], input[list], select { width: 100%; max-width: none; }
  input[type="search"], input[list], select { font-size: 16px; }
  .service > summary { grid-template-columns: 1fr auto; }
  .kind { grid-row: 2; grid-column: 1; padding-left: 1.2rem; }
  .frontends { grid-row: 3; grid-column: 1 / -1; padding-left: 1.2rem; }
  .share { grid-row: 1; grid-column: 2; }
  .more { padding-left: 0; }
  .rows.policies div { flex-direction: column; gap: 0; }
  .endpoints { display: block; overflow-wrap: anywhere; }
  .endpoints thead { display: none; }
  .endpoints tbody { display: block; }
  .endpoints tr { display: grid; grid-template-columns: 3rem minmax(0, 1fr); padding: 0.22rem 0; border-top: 1px solid var(--line); }
  .endpoints td { grid-column: 2; padding: 0; border: 0; }
  .endpoints td:first-child { grid-column: 1; }
  .endpoints td[data-name]::before { content: attr(data-name) " "; color: var(--soft); font-size: 0.8rem; }
  pre { white-space: pre-wrap; }
}
@media (prefers-contrast: more) { :root { --line: currentColor; --soft: var(--ink); } }
`;
