import type { AttemptCounts } from "../model/mod.ts";

/** The thresholds of the detection; durations in milliseconds. */
export interface FailureThresholds {
  /** The number of attempts in a row without an answer that makes an endpoint a suspect. */
  readonly attempts: number;
  /** The time for which a suspect must have answered no attempt. If one was first read this long ago, it is enough. */
  readonly silenceMs: number;
  /** The number of probes in a row that an endpoint that was left out must answer to be used again. */
  readonly recoveryProbes: number;
  /** The time after which it is tried again if it has never answered a probe; it doubles each time. */
  readonly trialMs: number;
}

/**
 * The state of every endpoint with connection attempts:
 * - used: its attempts are answered, or there are too few to tell;
 * - suspect: some were not answered, and it is being probed;
 * - unreachable: it is left out until it answers probes.
 *
 * An endpoint that has never answered anything is not suspected: a network policy may drop what this node sends there.
 */
export interface FailureDetector {
  /** Notes the counts of a reading; returns the new suspects. */
  note(counts: AttemptCounts): readonly string[];
  /** Whether a suspect has still not answered any attempt. */
  isSilent(endpoint: string): boolean;
  /** Whether enough attempts of a suspect are unanswered to leave it out without a sign that its kind answers probes. */
  hasEnoughAttempts(endpoint: string): boolean;
  /** The time of the last attempt that an endpoint has answered, by the monotonic clock; -Infinity if there was none. */
  lastAnswerMs(endpoint: string): number;
  /** Ends a suspicion without a result; until an attempt is answered, there is no new one for a while, longer each time. */
  clear(endpoint: string, reason: "answers" | "unknown"): void;
  /** Makes a suspect unreachable. */
  eject(endpoint: string): void;
  /** Notes the result of a probe of an unreachable endpoint. Returns whether it is used again. */
  reprobed(endpoint: string, answered: boolean): boolean;
  /** Uses an unreachable endpoint again. */
  release(endpoint: string): void;
  /** The unreachable endpoints, with the time at which each became unreachable, by the monotonic clock. */
  unreachable(): ReadonlyMap<string, number>;
}

interface Endpoint {
  made: number;
  answered: number;
  /** The attempts since the last answer, or since the reading before it. */
  unanswered: number;
  /** The time of a reading before the first of them was made. */
  silentSinceMs: number;
  /** The time of the first reading with one of them. */
  missedAtMs: number;
  /** The time of the last answer to an attempt; undefined if there was none. */
  answeredAtMs: number | undefined;
  seenAtMs: number;
  state: "used" | "suspect" | "unreachable";
  suspectedAtMs: number;
  /** The suspicions without a result since the last answer. */
  suspicions: number;
  /** The time before which it is not suspected again. */
  restUntilMs: number;
  hasAnsweredProbe: boolean;
  /** The probes answered in a row since it became unreachable. */
  recoveries: number;
  /** The number of times that it became unreachable. */
  ejections: number;
}

/** The pause after a suspicion without a result: an endpoint that dies then is found before Linux repeats a SYN, after 1 s. */
const FIRST_REST_MS = 250;
/** The longest pause, which bounds the probes of an endpoint that is overloaded for long. */
const LONGEST_REST_MS = 2_000;
/** The time for which an endpoint without attempts is remembered. */
const MEMORY_MS = 3_600_000;
/** The most probes that an endpoint that keeps failing must answer. */
const MOST_RECOVERY_PROBES = 16;

/** A detector that has not read any counts. `now` is a monotonic clock in milliseconds. */
export function createFailureDetector(thresholds: FailureThresholds, now: () => number): FailureDetector {
  const { attempts, silenceMs, recoveryProbes, trialMs } = thresholds;
  const endpoints = new Map<string, Endpoint>();
  const left = new Map<string, number>();
  let readAtMs: number | undefined;

  const noteCounts = (name: string, made: number, answered: number, nowMs: number): Endpoint => {
    const known = endpoints.get(name);
    // What was counted before the first reading may be old.
    const endpoint = known ??
      newEndpoint(readAtMs === undefined ? { made, answered } : { made: 0, answered: 0 }, nowMs);
    if (!known) {
      endpoints.set(name, endpoint);
      if (readAtMs === undefined && answered > 0) endpoint.answeredAtMs = nowMs;
    }
    const newlyMade = increase(endpoint.made, made), newlyAnswered = increase(endpoint.answered, answered);
    Object.assign(endpoint, { made, answered, seenAtMs: nowMs });
    if (newlyAnswered > 0) {
      Object.assign(endpoint, { answeredAtMs: nowMs, suspicions: 0, restUntilMs: 0 });
      // The rest may be on the way, or lost since the last answer.
      const unanswered = Math.max(0, newlyMade - newlyAnswered);
      Object.assign(endpoint, { unanswered, silentSinceMs: nowMs, missedAtMs: nowMs });
    } else if (newlyMade > 0) {
      if (endpoint.unanswered === 0) Object.assign(endpoint, { silentSinceMs: readAtMs ?? nowMs, missedAtMs: nowMs });
      endpoint.unanswered += newlyMade;
    }
    return endpoint;
  };

  const isSuspicious = (endpoint: Endpoint, nowMs: number) =>
    endpoint.state === "used" && endpoint.answeredAtMs !== undefined && nowMs >= endpoint.restUntilMs &&
    endpoint.unanswered > 0 &&
    nowMs - (endpoint.unanswered >= attempts ? endpoint.silentSinceMs : endpoint.missedAtMs) >= silenceMs;

  const release = (name: string) => {
    const endpoint = endpoints.get(name)!;
    left.delete(name);
    Object.assign(endpoint, { state: "used", unanswered: 0, recoveries: 0 });
  };

  return {
    note(counts) {
      const nowMs = now();
      const suspects: string[] = [];
      for (const [name, { made, answered }] of counts) {
        const endpoint = noteCounts(name, made, answered, nowMs);
        if (!isSuspicious(endpoint, nowMs)) continue;
        endpoint.state = "suspect";
        endpoint.suspectedAtMs = nowMs;
        suspects.push(name);
      }
      readAtMs = nowMs;
      forget(endpoints, counts, nowMs);
      return suspects;
    },
    isSilent(name) {
      const { answeredAtMs = -Infinity, suspectedAtMs } = endpoints.get(name)!;
      return answeredAtMs < suspectedAtMs;
    },
    hasEnoughAttempts: (name) => endpoints.get(name)!.unanswered >= attempts,
    lastAnswerMs: (name) => endpoints.get(name)?.answeredAtMs ?? -Infinity,
    clear(name, reason) {
      const endpoint = endpoints.get(name)!;
      const restMs = Math.min(FIRST_REST_MS * 2 ** endpoint.suspicions, LONGEST_REST_MS);
      Object.assign(endpoint, { state: "used", unanswered: 0, restUntilMs: now() + restMs });
      endpoint.suspicions++;
      if (reason === "answers") endpoint.hasAnsweredProbe = true;
    },
    eject(name) {
      const endpoint = endpoints.get(name)!;
      Object.assign(endpoint, { state: "unreachable", recoveries: 0, ejections: endpoint.ejections + 1 });
      left.set(name, now());
    },
    reprobed(name, answered) {
      const endpoint = endpoints.get(name)!, doublings = endpoint.ejections - 1;
      endpoint.recoveries = answered ? endpoint.recoveries + 1 : 0;
      if (answered) endpoint.hasAnsweredProbe = true;
      const isBack = endpoint.recoveries >= Math.min(recoveryProbes * 2 ** doublings, MOST_RECOVERY_PROBES);
      // Without an answer to any probe so far, only connections can show whether it is back.
      const isTried = !endpoint.hasAnsweredProbe && now() - left.get(name)! >= trialMs * 2 ** doublings;
      if (isBack || isTried) release(name);
      return isBack || isTried;
    },
    release,
    unreachable: () => left,
  };
}

function newEndpoint(
  { made, answered }: { readonly made: number; readonly answered: number },
  nowMs: number,
): Endpoint {
  return {
    ...{ made, answered, unanswered: 0, silentSinceMs: nowMs, missedAtMs: nowMs, answeredAtMs: undefined },
    ...{ seenAtMs: nowMs, state: "used", suspectedAtMs: nowMs, suspicions: 0, restUntilMs: 0 },
    ...{ hasAnsweredProbe: false, recoveries: 0, ejections: 0 },
  };
}

/** The increase of a counter, which starts at 0 again when the kernel has dropped it. */
function increase(before: number, after: number): number {
  return after >= before ? after - before : after;
}

/** Notes the counters that the kernel has dropped, and forgets endpoints that have not been used for long. */
function forget(endpoints: Map<string, Endpoint>, counts: AttemptCounts, nowMs: number): void {
  for (const [name, endpoint] of endpoints) {
    if (counts.has(name)) continue;
    endpoint.made = endpoint.answered = 0;
    if (endpoint.state === "used" && nowMs - endpoint.seenAtMs >= MEMORY_MS) endpoints.delete(name);
  }
}
