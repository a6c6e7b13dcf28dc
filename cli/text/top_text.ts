/** The status of a running proxy as lines for a terminal: the status page in text. */
import { type BrowsedService, type ServicePage, stoppedTraffic } from "../../answers/mod.ts";
import { problemKind } from "../../core/problems/mod.ts";
import { sizeOfSync, type SyncSummary } from "../../observe/mod.ts";
import { countText, durationText, megabytesText, plural } from "../../platform/mod.ts";
import {
  type FamilyStatusDetails,
  type ProxyStatus,
  stateOfFamily,
  stateOfLink,
  stateOfProxy,
} from "../../answers/control/mod.ts";
import { ago, dot, type Layout, type Line, type Piece, statePieces, textOf } from "./lines.ts";

/** The content of the report. */
export interface TopContent {
  readonly status: ProxyStatus;
  /** The services that need attention; undefined if unknown. */
  readonly attention: ServicePage | undefined;
  /** The reason why the status is out of date; undefined while the proxy answers. */
  readonly trouble: string | undefined;
}

/** The lines of a report. */
export function topLines(content: TopContent, layout: Layout): readonly string[] {
  const { status } = content;
  const head: Line[] = [
    ...headLines(content),
    ...status.families.flatMap((family) => [[], ...familyLines(family, status)]),
  ];
  const lists = [attentionLines(content), problemLines(status)];
  const room = Math.max(0, layout.rows - head.length);
  const lines = [...head, ...sharedOut(lists, room)].slice(0, layout.rows);
  return lines.map((line) => textOf(line, layout));
}

/** Truncates the lists to the available room; room that one list does not need goes to the other. */
function sharedOut(lists: readonly (readonly Line[])[], room: number): readonly Line[] {
  const half = Math.floor(room / lists.length);
  const spare = lists.reduce((sum, list) => sum + Math.max(0, half - list.length), 0);
  return lists.flatMap((list) => list.slice(0, list.length <= half ? list.length : half + spare));
}

function headLines({ status, trouble }: TopContent): Line[] {
  const { version, node, mode, source, atMs, startedAtMs, services, changesToPlan, residentBytes } = status;
  const waiting = status.families.reduce((sum, { changesPending }) => sum + changesPending, changesToPlan);
  const uptime = durationText(Math.max(1000, atMs - startedAtMs));
  return [
    [["bold", node], `  Sluice ${version}, ${mode} mode, from ${source}`],
    trouble === undefined ? statePieces(stateOfProxy(status)) : [dot("bad"), ["bad", trouble]],
    ...linkLines(status),
    [
      `services ${countText(services)}  changes waiting ${countText(waiting)}  memory ${megabytesText(residentBytes)}` +
      `  up ${uptime}`,
    ],
  ];
}

function linkLines(status: ProxyStatus): Line[] {
  const state = stateOfLink(status);
  if (state === undefined) return [];
  return [["source   ", ...statePieces(state)]];
}

function familyLines(details: FamilyStatusDetails, status: ProxyStatus): Line[] {
  const { family, revision, servicePorts, changesPending, syncs, latency } = details;
  const last = syncs.find(({ ok }) => ok);
  return [
    [["bold", family], "  ", ...statePieces(stateOfFamily(details, status))],
    [
      "  syncs    ",
      ...sparkline(syncs),
      last === undefined ? "  none has succeeded yet" : `  last ${ago(status.atMs, last.endedAtMs)}, ${lastText(last)}`,
    ],
    [
      `  state    revision ${countText(revision)}, ${plural(servicePorts, "service port")}, ` +
      `${countText(changesPending)} waiting`,
    ],
    ...(latency === undefined ? [] : [[
      `  latency  p50 ${durationText(latency.p50Ms)}  p90 ${durationText(latency.p90Ms)}  p99 ` +
      `${durationText(latency.p99Ms)}  longest ${durationText(latency.longestMs)}`,
      ["soft", `  of ${plural(latency.changes, "change")}`] as const,
    ]]),
  ];
}

function lastText(last: SyncSummary): string {
  const { total } = sizeOfSync(last);
  return `${durationText(last.durationMs)}, ${total === 0 ? "nothing to write" : plural(total, "change")}`;
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

function attentionLines({ attention, status }: TopContent): Line[] {
  if (attention === undefined || attention.total === 0) return [];
  return [
    [],
    [["bold", "Broken services"], ["soft", `  ${countText(attention.total)}`]],
    ...attention.services.map((service) => serviceLine(service)),
    ...(attention.pages > 1 ? [[["soft", `  and more: the status page of ${status.node} finds them`] as const]] : []),
  ];
}

/** A broken service, and why. */
export function serviceLine(service: BrowsedService): Line {
  const [note = ""] = [...service.problems, ...stoppedTraffic(service)];
  const { name, family, usedEndpoints, endpoints } = service;
  return [`  ${name} ${family}  ${usedEndpoints}/${endpoints}  `, ["soft", note]];
}

/** The problems of the proxy, each with its fix. */
export function problemLines({ problems, atMs }: ProxyStatus): Line[] {
  if (problems.length === 0) return [];
  return [
    [],
    [["bold", "Problems"]],
    ...problems.flatMap(({ code, subject, detail, sinceMs, count }): Line[] => {
      const { severity, title, fix } = problemKind(code);
      const times = count > 1 ? `, ${countText(count)} times` : "";
      return [
        [[severity === "error" ? "bad" : "warning", `  ${title}`], ["soft", `  ${code}`]],
        [`    ${subject}  ${detail}`],
        ["    ", ["soft", `since ${ago(atMs, sinceMs)}${times}; fix: ${fix}`]],
      ];
    }),
  ];
}
