import { type CurrentProblem, isOfSource, type ProblemCode, problemKind } from "../../core/problems/mod.ts";
import type { SyncSummary } from "../../observe/mod.ts";
import { countText, durationText, megabytesText, plural } from "../../platform/mod.ts";
import { stateOfFamily, stateOfLink, stateOfProxy, type StateWords } from "./states.ts";
import type { FamilyStatusDetails, ProxyStatus } from "./status.ts";
import { syncText } from "./texts.ts";

/**
 * The status of a node as everyone sees it: `sluice status`, `sluice top`, the page, `kubectl sluice` and programs. The proxy
 * makes it, the others only print it. Plain data.
 */
export interface NodeView extends Omit<ProxyStatus, "families" | "problems"> {
  /**
   * Whether everything is in effect: each family has synced, or needs no sync, nothing is broken, the link to the source
   * works, and the state is not a cached one.
   */
  readonly inOrder: boolean;
  readonly state: StateWords;
  /** The link to the API server or relay; undefined if the source is a file. */
  readonly linkState: StateWords | undefined;
  /**
   * The beginning of the state, in milliseconds since 1970: of the oldest error, or of the proxy if everything is in
   * effect; undefined if unknown.
   */
  readonly sinceMs: number | undefined;
  /** Everything else about the node, in the order in which it is shown. */
  readonly lines: readonly StatusLine[];
  readonly families: readonly FamilyView[];
  /** The current problems by kind, errors first. */
  readonly problems: readonly ProblemView[];
}

/** The status of one family. */
export interface FamilyView extends FamilyStatusDetails {
  readonly state: StateWords;
  /** Everything else about the family, in the order in which it is shown. */
  readonly lines: readonly StatusLine[];
}

/** The problems of one kind. */
export interface ProblemView {
  readonly code: ProblemCode;
  readonly tone: StateWords["tone"];
  readonly title: string;
  readonly fix: string;
  readonly occurrences: readonly CurrentProblem[];
}

/** A text with moments, in milliseconds since 1970, which are shown as their ages. */
export type Words = readonly (string | { readonly atMs: number })[];

/** A line of the status. */
export interface StatusLine {
  /** Its name: `Memory`; of a node's line, one word of at most nine letters. */
  readonly label: string;
  /** Undefined for a mere fact. */
  readonly tone?: StateWords["tone"];
  readonly words: Words;
  /** The cause; undefined if there is nothing to add. */
  readonly reason?: string | undefined;
  /** The words without the label, as part of a sentence: `last change 3 s ago`; `words` by default. */
  readonly inText?: Words;
  /** Whether `sluice status`, which is one screen, leaves it out. */
  readonly isDetail?: true;
}

/** Puts a status into words. */
export function viewOf(status: ProxyStatus): NodeView {
  const families = status.families.map((family): FamilyView => ({
    ...family,
    state: stateOfFamily(family, status),
    lines: linesOfFamily(family),
  }));
  const { link, startedAtMs } = status;
  const state = stateOfProxy(status, families), linkState = stateOfLink(status);
  const inOrder = state.tone !== "bad" && families.every(hasSynced) && link?.state !== "connecting" &&
    link?.keptMs === undefined;
  return {
    ...status,
    ...{ inOrder, state, linkState },
    sinceMs: inOrder ? startedAtMs : beginningOfTrouble(status),
    lines: linesOfNode(status, linkState),
    families: families.map((family) => ({ ...family, state: withoutListed(family.state, status.problems) })),
    problems: [...Map.groupBy(status.problems, ({ code }) => code)].map(([code, occurrences]) => {
      const { severity, title, fix } = problemKind(code);
      return { code, tone: severity === "error" ? "bad" : "warning", title, fix, occurrences };
    }),
  };
}

function linesOfNode(status: ProxyStatus, link: StateWords | undefined): readonly StatusLine[] {
  const { node, nodeAddresses, zone, version, mode, kernel, source, startedAtMs, families } = status;
  const waiting = families.reduce((sum, { changesPending }) => sum + changesPending, status.changesToPlan);
  const repaired = families.reduce((sum, { driftRepaired }) => sum + driftRepaired, 0);
  return [
    link === undefined ? { label: "Source", words: [source] } : lineOf({ label: "Source", ...link }),
    { label: "Node", words: [[node, ...nodeAddresses, ...(zone === "" ? [] : [`zone ${zone}`])].join("  ")] },
    { label: "Proxy", words: [`Sluice ${version}, ${mode} mode, kernel ${kernel}, started `, { atMs: startedAtMs }] },
    ...Object.values(status.features).map(lineOf),
    { label: "Memory", words: [megabytesText(status.residentBytes)] },
    { label: "Services", words: [countText(status.services)] },
    ...(waiting === 0 ? [] : [{ label: "Waiting", words: [plural(waiting, "change")] }]),
    ...(repaired === 0 ? [] : [{ label: "Repaired", words: [`${plural(repaired, "change")} by other programs`] }]),
  ];
}

function linesOfFamily(family: FamilyStatusDetails): readonly StatusLine[] {
  const { servicePorts, changesPending, syncs, lastChangeMs, latency, noLocalEndpoints, revision } = family;
  const waiting = changesPending === 0 ? [] : [`, ${countText(changesPending)} waiting`];
  const local = noLocalEndpoints.internal + noLocalEndpoints.external;
  return [
    {
      label: "Service ports",
      words: [countText(servicePorts), ...waiting],
      inText: [plural(servicePorts, "service port"), ...waiting],
    },
    lineOfSync(syncs.find(({ ok }) => ok)),
    ...Object.values(family.features).map(lineOf),
    ...(lastChangeMs === undefined ? [] : [{
      label: "Last change",
      words: [{ atMs: lastChangeMs }],
      inText: ["last change ", { atMs: lastChangeMs }],
    }]),
    ...(latency === undefined ? [] : [{ label: "Latency", words: [latencyText(latency)], isDetail: true } as const]),
    ...(local === 0 ? [] : [
      {
        label: "Policy Local",
        words: [`${plural(local, "service port")} without endpoints here`],
        isDetail: true,
      } as const,
    ]),
    { label: "Revision", words: [countText(revision)], inText: [`revision ${countText(revision)}`], isDetail: true },
  ];
}

function lineOfSync(last: SyncSummary | undefined): StatusLine {
  const label = "Last sync";
  if (last === undefined) return { label, words: ["none has succeeded yet"], inText: ["never synced"] };
  const words = [{ atMs: last.endedAtMs }, `, ${syncText(last)}`];
  return { label, words, inText: ["last sync ", ...words] };
}

function latencyText({ p50Ms, p90Ms, p99Ms, longestMs, changes }: NonNullable<FamilyStatusDetails["latency"]>): string {
  const parts = { p50: p50Ms, p90: p90Ms, p99: p99Ms, longest: longestMs };
  const texts = Object.entries(parts).map(([name, ms]) => `${name} ${durationText(ms)}`);
  return `${texts.join(", ")} of ${plural(changes, "change")}`;
}

function lineOf({ label, tone, words, reason }: StateWords & { readonly label: string }): StatusLine {
  return { label, tone, words: [words], reason };
}

/** A state without its reason if that is the detail of a problem, which is shown anyway. */
function withoutListed(state: StateWords, problems: readonly CurrentProblem[]): StateWords {
  return problems.some(({ detail }) => detail === state.reason) ? { ...state, reason: undefined } : state;
}

/** The state of a node where its problems are shown, too: without a reason that they contain. */
export function headlineOf({ state, link, problems }: NodeView): StateWords {
  const isOfLink = state.reason === link?.lastError && problems.some(({ code }) => isOfSource(code));
  return isOfLink ? { ...state, reason: undefined } : withoutListed(state, problems.flatMap((one) => one.occurrences));
}

function hasSynced({ worker, syncs }: FamilyStatusDetails): boolean {
  return worker.state === "resting" || worker.state === "unfit" && worker.unsupported || syncs.length > 0;
}

function beginningOfTrouble({ link, problems }: ProxyStatus): number | undefined {
  const beginnings = [
    ...problems.filter(({ code }) => problemKind(code).severity === "error").map(({ sinceMs }) => sinceMs),
    ...(link === undefined || link.state === "connected" ? [] : [link.sinceMs]),
  ];
  return beginnings.length === 0 ? undefined : Math.min(...beginnings);
}
