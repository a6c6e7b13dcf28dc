import { problemKind } from "../../core/problems/mod.ts";
import { isInOrder, stateOfLink, stateOfProxy, type StateWords } from "./state_words.ts";
import type { ProxyStatus } from "./status.ts";

/** The state of a proxy in words, for readers that may be of another version. */
export interface StatusSummary {
  /** Whether everything is in effect. */
  readonly inOrder: boolean;
  readonly state: StateWords;
  /** The link to the API server or relay; undefined if the source is a file. */
  readonly link: StateWords | undefined;
  /**
   * The beginning of the state, in milliseconds since 1970: of the oldest error, or of the proxy if everything is in
   * effect; undefined if unknown.
   */
  readonly sinceMs: number | undefined;
}

/** Sums up a status. */
export function summaryOf(status: ProxyStatus): StatusSummary {
  const inOrder = isInOrder(status);
  return {
    inOrder,
    state: stateOfProxy(status),
    link: stateOfLink(status),
    sinceMs: inOrder ? status.startedAtMs : beginningOfTrouble(status),
  };
}

function beginningOfTrouble({ link, problems }: ProxyStatus): number | undefined {
  const beginnings = [
    ...problems.filter(({ code }) => problemKind(code).severity === "error").map(({ sinceMs }) => sinceMs),
    ...(link === undefined || link.state === "connected" ? [] : [link.sinceMs]),
  ];
  return beginnings.length === 0 ? undefined : Math.min(...beginnings);
}
