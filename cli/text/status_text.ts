/** The answers of `sluice status` and `sluice cluster status`: one screen, or one line for each node. */
import { type FamilyView, headlineOf, type NodeView, type StatusLine } from "../../answers/status/mod.ts";
import { attentionText, type ServicePage } from "../../answers/mod.ts";
import type { NodeReport } from "../cluster/mod.ts";
import {
  ago,
  alignedLines,
  dot,
  layoutOfOutput,
  type Line,
  type Piece,
  statePieces,
  textOf,
  wordsText,
} from "./lines.ts";
import { serviceRows } from "./tables.ts";
import { countText, durationText, plural } from "../../platform/mod.ts";
import type { SyncSummary } from "../../observe/mod.ts";

/** The lines of the status. `needy` is the first page of services that need attention; undefined if the cluster was not read yet. */
export function statusLines(
  view: NodeView,
  needy: ServicePage | undefined,
  layout = layoutOfOutput(),
): readonly string[] {
  const lines = [...viewLines(view, { details: false }), ...attentionLines(needy), ...problemLines(view)];
  return lines.map((line) => textOf(line, layout));
}

function attentionLines(needy: ServicePage | undefined): Line[] {
  if (needy === undefined) return [["attention services not read yet"]];
  const { total, pages, services, attention } = needy;
  if (total === 0) return [["attention none"]];
  return [
    ["attention ", [attention.refused > 0 ? "bad" : "warning", attentionText(attention)]],
    ...serviceRows(services, Infinity),
    ...(pages > 1 ? [[["soft", "  and more; `sluice top` and the status page list them"] as const]] : []),
  ];
}

const NAMED = 3;

/** The lines of the survey: the verdict in one sentence, then the nodes in the given order. */
export function clusterLines(reports: readonly NodeReport[], layout = layoutOfOutput()): readonly string[] {
  const headings = ["node", "version", "mode", "state", "attention", "link", "since", "reason"]
    .map((heading): Piece => ["soft", heading.toUpperCase()]);
  return [verdict(reports), ...alignedLines([headings, ...reports.map(cellsOf)])].map((line) => textOf(line, layout));
}

function cellsOf({ node, state, status }: NodeReport): readonly Piece[] {
  return [
    ["bold", node],
    status?.version ?? "-",
    status?.mode ?? "-",
    [state.tone, state.words],
    attentionCell(status),
    status?.link === undefined ? "-" : [status.link.tone, status.link.words],
    status?.lastingMs === undefined ? "-" : durationText(Math.max(1000, status.lastingMs)),
    ["soft", state.reason ?? ""],
  ];
}

function attentionCell(status: NodeReport["status"]): Piece {
  if (status?.attention === undefined) return "-";
  const { total, names } = status.attention;
  if (total === 0) return "none";
  const named = names.slice(0, NAMED);
  const more = total - named.length;
  return ["warning", [...named, ...(more > 0 ? [`${countText(more)} more`] : [])].join(", ")];
}

function verdict(reports: readonly NodeReport[]): Line {
  const count = (test: (report: NodeReport) => boolean) => reports.filter(test).length;
  const disordered = count(({ status }) => status?.inOrder === false);
  const silent = count(({ answer }) => answer === "none");
  const without = count(({ answer }) => answer === "no pod");
  const counts = { "not in order": disordered, "without an answer": silent, "without a pod of Sluice": without };
  const parts = Object.entries(counts).filter(([, count]) => count > 0)
    .map(([words, count]) => `${countText(count)} ${words}`);
  if (reports.length === 0) return [dot("idle"), ["idle", "no nodes"]];
  const tone = disordered + silent > 0 ? "bad" : without > 0 ? "idle" : "good";
  const words = `${plural(reports.length, "node")}: ${parts.length === 0 ? "all in order" : parts.join(", ")}`;
  return [dot(tone), [tone, words]];
}

interface Extent {
  /** Whether details are printed, and the durations of the last syncs. */
  readonly details: boolean;
  /** The reason why the view is out of date; undefined while the proxy answers. */
  readonly trouble?: string | undefined;
}

/** The state of a node, what is known about it, and its families. */
export function viewLines(view: NodeView, { details, trouble }: Extent): readonly Line[] {
  const { lines, families, atMs } = view;
  const isShown = ({ isDetail }: StatusLine) => details || !isDetail;
  return [
    trouble === undefined ? statePieces(headlineOf(view)) : [dot("bad"), ["bad", trouble]],
    ...lines.filter(isShown).map((line) => nodeLine(line, atMs)),
    ...families.flatMap((family) => [
      familyLine(family, family.lines.filter(isShown), atMs),
      ...(details && family.syncs.length > 0 ? [["syncs     ", ...sparkline(family.syncs)]] : []),
    ]),
  ];
}

/** A label and its words: `source    ● connected`. */
function nodeLine({ label, tone, words, reason }: StatusLine, atMs: number): Line {
  const text = wordsText(words, atMs);
  return [
    label.toLowerCase().padEnd(10),
    ...(tone === undefined ? [text] : statePieces({ tone, words: text, reason })),
  ];
}

function familyLine({ family, state }: FamilyView, lines: readonly StatusLine[], atMs: number): Line {
  const facts = lines.map(({ words, inText = words }) => wordsText(inText, atMs));
  return [family.padEnd(10), ...statePieces(state), ["soft", `  ${facts.join(", ")}`]];
}

const BARS = "▁▂▃▄▅▆▇█";

/** The durations of the last syncs, newest at the right, on a logarithmic scale. */
function sparkline(syncs: readonly SyncSummary[]): Line {
  const longest = Math.max(10, ...syncs.map(({ durationMs }) => durationMs));
  return [...syncs].reverse().map(({ durationMs, ok, problems }): Piece => {
    const height = Math.round((BARS.length - 1) * Math.log1p(durationMs) / Math.log1p(longest));
    return [!ok ? "bad" : problems > 0 ? "warning" : "good", BARS[height]!];
  });
}

/** The problems of a node by kind, each kind with its fix. */
export function problemLines({ problems, atMs }: NodeView): readonly Line[] {
  if (problems.length === 0) return [];
  return [
    [],
    [["bold", "Problems"]],
    ...problems.flatMap(({ code, tone, title, fix, occurrences }): Line[] => [
      [[tone, `  ${title}`], ["soft", `  ${code}`]],
      ...occurrences.flatMap(({ subject, detail, sinceMs, count }): Line[] => [
        [`    ${subject}  ${detail}`],
        [["soft", `    began ${ago(atMs, sinceMs)}${count > 1 ? `, reported ${countText(count)} times` : ""}`]],
      ]),
      [["soft", `    fix: ${fix}`]],
    ]),
  ];
}
