/** The view of a node in lines for a terminal. */
import { type FamilyView, headlineOf, type NodeView, type StatusLine } from "../../answers/status/mod.ts";
import type { SyncSummary } from "../../observe/mod.ts";
import { countText } from "../../platform/mod.ts";
import { ago, dot, type Line, type Piece, statePieces, wordsText } from "./lines.ts";

/** The parts of a view that are printed. */
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
