import type { Family } from "../../core/model/mod.ts";
import { type ProblemCode, problemKind } from "../../core/problems/mod.ts";
import type { FeatureStatus } from "../../features/mod.ts";
import type { SourceLink } from "../../observe/process/mod.ts";
import { durationText, plural, timeOfDay } from "../../platform/mod.ts";
import type { FamilyStatusDetails, ProxyStatus } from "./status.ts";

/** A state in a few words, and its urgency. */
export interface StateWords extends Pick<FeatureStatus, "tone" | "words" | "reason"> {}

interface FamilyState {
  readonly family: Family;
  readonly state: StateWords;
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
    const times = failure === undefined
      ? ""
      : ` for ${lasting(atMs - failure.sinceMs)} (${plural(failure.count, "time")})`;
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
export function stateOfLink({ link, atMs }: Pick<ProxyStatus, "link" | "atMs">): StateWords | undefined {
  if (link === undefined) return undefined;
  const since = lasting(atMs - link.sinceMs);
  const { server, lastReceivedMs, retryAtMs } = link;
  const heard = lastReceivedMs === undefined ? undefined : `last answer ${lasting(atMs - lastReceivedMs)} ago`;
  switch (link.state) {
    case "connecting":
      return { tone: "warning", words: `connecting for ${since}`, reason: undefined };
    case "connected":
      return { tone: "good", words: `connected to ${server} for ${since}`, reason: heard };
    case "disconnected": {
      const retryMs = (retryAtMs ?? atMs) - atMs;
      const retry = retryMs < 500 ? "retrying now" : `retry in ${lasting(retryMs)}`;
      // The state of the proxy, or a problem, has the error.
      const reason = heard === undefined ? retry : `${heard}; ${retry}`;
      return { tone: "bad", words: `disconnected from ${server} for ${since}`, reason };
    }
  }
}

/** The state of the proxy: the state of its worst family, or of its link to the source. */
export function stateOfProxy(status: ProxyStatus, views: readonly FamilyState[]): StateWords {
  const families = views.map(({ family, state }) => ({ name: family, ...state }));
  const isFailing = families.some(({ tone }) => tone === "bad");
  // One sentence where no family can be served, instead of one per family.
  if (families.length > 0 && families.every(({ tone, words }) => tone === "bad" && words === "cannot be served")) {
    return { tone: "bad", words: "neither IP family can be served", reason: families[0]!.reason };
  }
  if (!isFailing && status.link?.keptMs !== undefined) return servingKept(status, status.link, status.link.keptMs);
  if (!isFailing && status.link?.state === "disconnected") {
    const { server, sinceMs, lastError } = status.link;
    return withoutSource(status, server, sinceMs, lastError);
  }
  const unreadable = status.problems.find(({ code }) => code === "file-unreadable");
  if (!isFailing && unreadable !== undefined) {
    const { subject, sinceMs, detail } = unreadable;
    return withoutSource(status, subject, sinceMs, detail);
  }
  const tone = (["bad", "warning"] as const).find((one) => families.some(({ tone }) => tone === one));
  // The reason is shown with the family.
  if (tone !== undefined) {
    const words = families.filter((one) => one.tone === tone).map(({ name, words }) => `${name}: ${words}`).join("; ");
    return { tone, words, reason: undefined };
  }
  if (!status.healthy) return { tone: "bad", words: "behind: changes are overdue", reason: undefined };
  if (!status.nodeEligible) {
    const words = status.nodeKnown ? "the node is leaving" : `there is no Node object ${status.node}`;
    return { tone: "warning", words, reason: "health checks tell load balancers to send no traffic here" };
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

/** The state of a proxy that cannot read its source, or a part of it. */
function withoutSource(
  { atMs, families }: ProxyStatus,
  subject: string,
  sinceMs: number,
  reason: string | undefined,
): StateWords {
  const isServing = families.some(({ syncs }) => syncs.length > 0);
  const effect = isServing
    ? "the last known state stays in effect"
    : "nothing read from it yet, the kernel stays as it is";
  return { tone: "bad", words: `cannot read ${subject} for ${lasting(atMs - sinceMs)}: ${effect}`, reason };
}

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

/** Puts a state and its reason into one sentence. */
export function sentenceOf({ words, reason }: Pick<StateWords, "words" | "reason">): string {
  return reason === undefined ? words : `${words} (${reason})`;
}
