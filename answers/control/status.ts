/** The status of a proxy: its data, and its state in words and a tone, for the page and the terminal. */
import type { Family, ProxyMode } from "../../core/model/mod.ts";
import type { NoLocalEndpoints } from "../../core/planning/mod.ts";
import { type CurrentProblem, type ProblemCode, problemKind } from "../../core/problems/mod.ts";
import type { FeatureStatus } from "../../features/mod.ts";
import type { SourceLink } from "../../observe/process/mod.ts";
import type { FamilyRecord, FeedEvent, SyncSummary } from "../../observe/mod.ts";
import { durationText, plural, timeOfDay } from "../../platform/mod.ts";

/** The status of a running proxy, for the page and the terminal. Plain data. */
export interface ProxyStatus {
  readonly version: string;
  readonly node: string;
  /** The node's addresses, canonical, the primary family first; without unknown ones. */
  readonly nodeAddresses: readonly string[];
  /** The node's zone; empty if unknown. */
  readonly zone: string;
  /** The release of its kernel: `6.1.0-18-amd64`. */
  readonly kernel: string;
  readonly mode: ProxyMode;
  /** The source of the services, as on the command line. */
  readonly source: string;
  /** The link to the API server or relay; undefined if the source is a file. */
  readonly link: SourceLink | undefined;
  /** The wall time of this status and of the proxy's start, in milliseconds since 1970. */
  readonly atMs: number;
  readonly startedAtMs: number;
  readonly healthy: boolean;
  /** Whether load balancers should send traffic to this node. */
  readonly nodeEligible: boolean;
  /** Changes whenever answers about services and endpoints may have changed. */
  readonly stamp: string;
  /** The number of services, and of changes to services and slices that wait to be planned. */
  readonly services: number;
  readonly changesToPlan: number;
  readonly residentBytes: number;
  readonly families: readonly FamilyStatusDetails[];
  /** The status lines of features about the node, by the name of the feature. */
  readonly features: Readonly<Record<string, FeatureStatus>>;
  /** The current problems: errors before warnings, the newest first. */
  readonly problems: readonly CurrentProblem[];
}

/** The status of one family. */
export interface FamilyStatusDetails extends FamilyRecord {
  readonly family: Family;
  readonly healthy: boolean;
  /** The revision last sent to the worker. */
  readonly revision: number;
  readonly servicePorts: number;
  /** Service ports whose last change is not in the kernel. */
  readonly changesPending: number;
  readonly noLocalEndpoints: NoLocalEndpoints;
  /** The status lines of features about the family, by the name of the feature. */
  readonly features: Readonly<Record<string, FeatureStatus>>;
}

/** The proxy cannot answer yet: its caches have not synced. */
export class NotReadyError extends Error {
  override readonly name = "NotReadyError";
}

/** A state in a few words, and its urgency. */
export interface StateWords {
  readonly tone: "good" | "warning" | "bad" | "idle";
  readonly words: string;
  /** The cause; undefined if there is nothing to add. */
  readonly reason: string | undefined;
}

/** The problems of single service ports that a sync leaves out. */
const REFUSALS: readonly ProblemCode[] = ["rules-refused", "not-relayed"];

/** The state of a family. */
export function stateOfFamily(
  { family, worker, healthy, syncs, changesPending, features }: FamilyStatusDetails,
  { problems, atMs }: Pick<ProxyStatus, "problems" | "atMs">,
): StateWords {
  const last = syncs[0];
  const current = (code: ProblemCode) => problems.find((one) => one.code === code && one.subject === family);
  const failure = current("sync-failed");
  switch (worker.state) {
    case "unfit":
      return worker.unsupported
        ? { tone: "idle", words: "not served by this host", reason: worker.reason }
        : { tone: "bad", words: "cannot be served", reason: worker.reason };
    case "restarting":
      return { tone: "bad", words: `worker restarting (${worker.restarts})`, reason: worker.reason };
    case "starting":
      return { tone: "warning", words: "starting", reason: undefined };
    case "resting":
      return { tone: "idle", words: "no services", reason: undefined };
  }
  if (last === undefined) return { tone: "warning", words: "waiting for the cluster's state", reason: undefined };
  if (!last.ok) {
    const times = failure === undefined ? "" : ` for ${lasting(atMs - failure.sinceMs)} (${failure.count} times)`;
    return { tone: "bad", words: `syncs have been failing${times}, retrying`, reason: failure?.detail };
  }
  const broken = Object.values(features).find((one) => one.broken !== undefined);
  if (broken?.broken !== undefined) return { tone: "bad", words: broken.broken, reason: broken.reason };
  const overdue = current("changes-overdue");
  if (overdue) return { tone: "bad", words: "behind: a tool or the kernel does not answer", reason: overdue.detail };
  if (!healthy) return { tone: "bad", words: "behind: changes are overdue", reason: undefined };
  if (last.problems > 0) {
    const refused = problems.filter(({ code, subject }) => REFUSALS.includes(code) && subject.endsWith(`(${family})`));
    const except = refused.length === 0
      ? "with problems"
      : `except for ${plural(refused.length, "refused service port")}`;
    return { tone: "bad", words: `in sync, ${except}`, reason: undefined };
  }
  const drift = current("rules-changed-by-others");
  if (drift) return { tone: "bad", words: "the rules differ at every comparison", reason: drift.detail };
  return { tone: "good", words: changesPending > 0 ? "syncing" : "in sync", reason: undefined };
}

/** The state of the link to the API server or relay; undefined if the source is a file. */
function stateOfLink({ link, atMs }: Pick<ProxyStatus, "link" | "atMs">): StateWords | undefined {
  if (link === undefined) return undefined;
  const since = lasting(atMs - link.sinceMs);
  const { server, lastReceivedMs, lastError, retryAtMs } = link;
  const heard = lastReceivedMs === undefined ? undefined : `last answer ${lasting(atMs - lastReceivedMs)} ago`;
  switch (link.state) {
    case "connecting":
      return { tone: "warning", words: `connecting for ${since}`, reason: undefined };
    case "connected":
      return { tone: "good", words: `connected to ${server} for ${since}`, reason: heard };
    case "disconnected": {
      const retryMs = (retryAtMs ?? atMs) - atMs;
      const retry = retryMs < 500 ? "retrying now" : `retry in ${lasting(retryMs)}`;
      const reason = [lastError, heard, retry].filter((part) => part !== undefined).join("; ");
      return { tone: "bad", words: `disconnected from ${server} for ${since}`, reason };
    }
  }
}

/** The state of the proxy: the state of its worst family, or of its link to the source. */
function stateOfProxy(status: ProxyStatus, views: readonly FamilyView[]): StateWords {
  const families = views.map(({ family, state }) => ({ name: family, ...state }));
  const isFailing = families.some(({ tone }) => tone === "bad");
  // One sentence where no family can be served, instead of one per family.
  if (families.length > 0 && families.every(({ tone, words }) => tone === "bad" && words === "cannot be served")) {
    return { tone: "bad", words: "neither IP family can be served", reason: families[0]!.reason };
  }
  if (!isFailing && status.link?.keptMs !== undefined) return servingKept(status, status.link, status.link.keptMs);
  if (!isFailing && status.link?.state === "disconnected") {
    const since = lasting(status.atMs - status.link.sinceMs);
    const words = `no connection to ${status.link.server} for ${since}: the last known state stays in effect`;
    return { tone: "bad", words, reason: status.link.lastError };
  }
  const tone = (["bad", "warning"] as const).find((one) => families.some(({ tone }) => tone === one));
  // The reason is shown with the family.
  if (tone !== undefined) {
    const words = families.filter((one) => one.tone === tone).map(({ name, words }) => `${name}: ${words}`).join("; ");
    return { tone, words, reason: undefined };
  }
  if (!status.healthy) return { tone: "bad", words: "behind: changes are overdue", reason: undefined };
  if (!status.nodeEligible) {
    return {
      tone: "warning",
      words: "the node is leaving",
      reason: "health checks tell load balancers to send no traffic here",
    };
  }
  const [problem, ...others] = status.problems;
  if (problem !== undefined) {
    const { title } = problemKind(problem.code);
    return others.length === 0
      ? { tone: "warning", words: "all in sync, with a problem", reason: `${problem.subject}: ${title}` }
      : { tone: "warning", words: "all in sync, with problems", reason: title };
  }
  return { tone: "good", words: "all in sync", reason: undefined };
}

/** The state of a proxy that serves a cached state. */
function servingKept({ source, atMs }: ProxyStatus, link: SourceLink, keptMs: number): StateWords {
  const { state, lastError } = link;
  const serving = `serving the state of ${timeText(keptMs, atMs)}${revisedText(link)}`;
  const server = source === "kube" ? "API server" : "server";
  if (state === "connected") {
    return { tone: "warning", words: `${serving} until that of the ${server} is read`, reason: undefined };
  }
  return { tone: "bad", words: `${serving}, ${server} unreachable`, reason: lastError };
}

/** How the cached endpoints were revised; empty if they were not. */
function revisedText({ keptEndpoints: { replaced, leftOut } = { replaced: 0, leftOut: 0 } }: SourceLink): string {
  if (replaced === 0 && leftOut === 0) return "";
  return ` (pods of this node: ${plural(replaced, "endpoint")} with a new address, ${leftOut} left out)`;
}

/** A time as `14:03 UTC`, with its date unless that is today's. */
function timeText(timeMs: number, nowMs: number): string {
  const [date, today] = [timeMs, nowMs].map((ms) => new Date(ms).toISOString().slice(0, 10));
  return `${date === today ? "" : `${date} `}${timeOfDay(timeMs).slice(0, 5)} UTC`;
}

/** A duration in whole seconds: `1 min 5 s`. */
function lasting(durationMs: number): string {
  return durationText(Math.max(0, Math.round(durationMs / 1000) * 1000));
}

const EFFECTS: Readonly<Record<NonNullable<FeedEvent["effect"]>, string>> = {
  "waiting": "not in effect yet",
  "in effect": "in effect after ",
  "refused": "refused by the kernel",
  "overtaken": "overtaken by a later change",
};

/** The change, and whether it is in effect: `2 → 0 endpoints, in effect after 12 ms`. */
export function eventText({ text, effect, tookMs }: Pick<FeedEvent, "text" | "effect" | "tookMs">): string {
  if (effect === undefined) return text;
  return `${text}, ${EFFECTS[effect]}${effect === "in effect" ? durationText(tookMs ?? 0) : ""}`;
}

/** A status with its words, for every place that shows one. */
export interface StatusView extends Omit<ProxyStatus, "link" | "families"> {
  /**
   * Whether everything is in effect: each family has synced, or needs no sync, nothing is broken, the link to the source
   * works, and the state is not a cached one.
   */
  readonly inOrder: boolean;
  readonly state: StateWords;
  /** The link to the API server or relay; undefined if the source is a file. */
  readonly link: StateWords | undefined;
  /**
   * The beginning of the state, in milliseconds since 1970: of the oldest error, or of the proxy if everything is in
   * effect; undefined if unknown.
   */
  readonly sinceMs: number | undefined;
  /** The number of changes that are not in effect. */
  readonly waiting: number;
  /** The time since the start: `2 h 5 min`. */
  readonly uptime: string;
  readonly families: readonly FamilyView[];
}

/** The status of one family with its words. */
export interface FamilyView extends FamilyStatusDetails {
  readonly state: StateWords;
  /** The last sync that has succeeded; undefined before it. */
  readonly lastSync: SyncSummary | undefined;
}

/** Puts a status into words. */
export function viewOf(status: ProxyStatus): StatusView {
  const { link, changesToPlan, atMs, startedAtMs } = status;
  const families = status.families.map((one): FamilyView => ({
    ...one,
    state: stateOfFamily(one, status),
    lastSync: one.syncs.find(({ ok }) => ok),
  }));
  const state = stateOfProxy(status, families);
  const inOrder = state.tone !== "bad" && families.every(hasSynced) && link?.state !== "connecting" &&
    link?.keptMs === undefined;
  return {
    ...status,
    ...{ inOrder, state, link: stateOfLink(status), families },
    sinceMs: inOrder ? startedAtMs : beginningOfTrouble(status),
    waiting: families.reduce((sum, { changesPending }) => sum + changesPending, changesToPlan),
    uptime: durationText(Math.max(1000, atMs - startedAtMs)),
  };
}

/** Whether a family has synced, or needs no sync. */
function hasSynced({ worker, syncs }: FamilyRecord): boolean {
  return worker.state === "resting" || worker.state === "unfit" && worker.unsupported || syncs.length > 0;
}

function beginningOfTrouble({ link, problems }: ProxyStatus): number | undefined {
  const beginnings = [
    ...problems.filter(({ code }) => problemKind(code).severity === "error").map(({ sinceMs }) => sinceMs),
    ...(link === undefined || link.state === "connected" ? [] : [link.sinceMs]),
  ];
  return beginnings.length === 0 ? undefined : Math.min(...beginnings);
}

/** Puts a state and its reason into one sentence. */
export function sentenceOf({ words, reason }: Pick<StateWords, "words" | "reason">): string {
  return reason === undefined ? words : `${words} (${reason})`;
}
