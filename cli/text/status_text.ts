/** The answers of `sluice status` and `sluice cluster status`: one screen, or one line for each node. */
import type { NodeView } from "../../answers/status/mod.ts";
import type { ServicePage } from "../../answers/mod.ts";
import type { NodeReport } from "../cluster/mod.ts";
import { alignedLines, dot, layoutOfOutput, type Line, type Piece, textOf } from "./lines.ts";
import { serviceRows } from "./tables.ts";
import { problemLines, viewLines } from "./view_text.ts";
import { countText, durationText, plural } from "../../platform/mod.ts";

/** The lines of the status. `broken` is the first page of broken services; undefined if the cluster was not read yet. */
export function statusLines(
  view: NodeView,
  broken: ServicePage | undefined,
  layout = layoutOfOutput(),
): readonly string[] {
  const lines = [...viewLines(view, { details: false }), ...brokenLines(view, broken), ...problemLines(view)];
  return lines.map((line) => textOf(line, layout));
}

function brokenLines({ services }: NodeView, broken: ServicePage | undefined): Line[] {
  if (broken === undefined) return [["services  not read yet"]];
  const total = `services  ${countText(services)}`;
  if (broken.total === 0) return [[`${total}, none broken`]];
  return [
    [`${total}, `, ["bad", `${plural(broken.total, "service port")} broken`]],
    ...serviceRows(broken.services, Infinity),
    ...(broken.pages > 1 ? [[["soft", "  and more; `sluice top` and the status page list them"] as const]] : []),
  ];
}

/** The number of broken services that a line names. */
const NAMED = 3;

/** The lines of the survey: the verdict in one sentence, then the nodes in the given order. */
export function clusterLines(reports: readonly NodeReport[], layout = layoutOfOutput()): readonly string[] {
  const headings = ["node", "version", "mode", "state", "broken", "link", "since", "reason"]
    .map((heading): Piece => ["soft", heading.toUpperCase()]);
  return [verdict(reports), ...alignedLines([headings, ...reports.map(cellsOf)])].map((line) => textOf(line, layout));
}

function cellsOf({ node, state, status }: NodeReport): readonly Piece[] {
  return [
    ["bold", node],
    status?.version ?? "-",
    status?.mode ?? "-",
    [state.tone, state.words],
    brokenCell(status),
    status?.link === undefined ? "-" : [status.link.tone, status.link.words],
    status?.lastingMs === undefined ? "-" : durationText(Math.max(1000, status.lastingMs)),
    ["soft", state.reason ?? ""],
  ];
}

function brokenCell(status: NodeReport["status"]): Piece {
  if (status?.broken === undefined) return "-";
  const { total, names } = status.broken;
  if (total === 0) return "none";
  const named = names.slice(0, NAMED);
  const more = total - named.length;
  return ["bad", [...named, ...(more > 0 ? [`${countText(more)} more`] : [])].join(", ")];
}

function verdict(reports: readonly NodeReport[]): Line {
  const count = (test: (report: NodeReport) => boolean) => reports.filter(test).length;
  const broken = count(({ status }) => status?.inOrder === false);
  const silent = count(({ answer }) => answer === "none");
  const without = count(({ answer }) => answer === "no pod");
  const counts = { "not in order": broken, "without an answer": silent, "without a pod of Sluice": without };
  const parts = Object.entries(counts).filter(([, count]) => count > 0)
    .map(([words, count]) => `${countText(count)} ${words}`);
  if (reports.length === 0) return [dot("idle"), ["idle", "no nodes"]];
  const tone = broken + silent > 0 ? "bad" : without > 0 ? "idle" : "good";
  const words = `${plural(reports.length, "node")}: ${parts.length === 0 ? "all in order" : parts.join(", ")}`;
  return [dot(tone), [tone, words]];
}
