/** The state of a proxy and its families in words and a tone, for the page and the terminal. */
import type { FamilyStatusDetails, ProxyStatus } from "./status.ts";

/** A state in a few words, and its urgency. */
export interface StateWords {
  readonly tone: "good" | "warning" | "bad" | "idle";
  readonly words: string;
  /** The cause; undefined if there is nothing to add. */
  readonly reason: string | undefined;
}

/** The state of a family. */
export function stateOfFamily(
  { family, worker, healthy, syncs, changesPending }: FamilyStatusDetails,
  { problems }: Pick<ProxyStatus, "problems">,
): StateWords {
  const last = syncs[0];
  const failure = problems.find(({ code, subject }) => code === "sync-failed" && subject === family)?.detail;
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
  if (!healthy) return { tone: "bad", words: "behind: changes are overdue", reason: last.ok ? undefined : failure };
  if (!last.ok) return { tone: "bad", words: "the last sync failed, retrying", reason: failure };
  if (last.problems > 0) return { tone: "warning", words: "in sync, with problems", reason: undefined };
  return { tone: "good", words: changesPending > 0 ? "syncing" : "in sync", reason: undefined };
}

/** The state of the proxy: that of its worst family. */
export function stateOfProxy(status: ProxyStatus): StateWords {
  const states = status.families.map((family) => ({ family: family.family, ...stateOfFamily(family, status) }));
  const bad = states.find(({ tone }) => tone === "bad") ?? states.find(({ tone }) => tone === "warning");
  // The reason is shown with the family.
  if (bad) return { tone: bad.tone, words: `${bad.family}: ${bad.words}`, reason: undefined };
  if (!status.healthy) return { tone: "bad", words: "behind: changes are overdue", reason: undefined };
  if (!status.nodeEligible) {
    return {
      tone: "warning",
      words: "the node is leaving",
      reason: "health checks tell load balancers to send no traffic here",
    };
  }
  return { tone: "good", words: "all in sync", reason: undefined };
}
