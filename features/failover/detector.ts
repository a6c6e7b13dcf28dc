import type { AttemptCounts, Attempts } from "../../core/model/mod.ts";
import type { FailoverOptions } from "./options.ts";

/** The options that the detection depends on. */
export type Thresholds = Pick<FailoverOptions, "attempts" | "silenceMs" | "recoveryProbes" | "trialIntervalMs">;

/** The result of a probe: something answered, nothing did, or the probe could not be made. */
export type ProbeResult = "answered" | "silent" | "unknown";

/**
 * The state of every endpoint with connection attempts:
 * - used: its attempts are answered, or there are too few to tell;
 * - suspect: some were not answered, and it is being probed;
 * - unreachable: it is left out.
 *
 * Unanswered attempts alone are not evidence: any pod can send packets that a network policy drops. An endpoint is left out
 * only if it has answered a probe of this node before and no longer does, so working endpoints are probed too.
 */
export interface FailureDetector {
  /** Notes the counts of a reading; returns the new suspects. */
  note(counts: AttemptCounts): readonly string[];
  /** Returns up to `most` endpoints to probe: unreachable ones in turn, then endpoints not probed recently. */
  takeUntried(most: number): readonly string[];
  /** Notes the result of a probe of an endpoint in any state. */
  noteProbe(endpoint: string, result: ProbeResult): void;
  /** Whether a suspect has answered neither an attempt nor a probe since it became one, but has answered a probe before. */
  isFailing(endpoint: string): boolean;
  /**
   * Ends a suspicion: a failing suspect becomes unreachable if another endpoint beside it answers probes. Otherwise, until an
   * attempt is answered, it does not become a suspect again for a period that grows each time. Returns whether it became
   * unreachable.
   */
  judge(endpoint: string, anotherAnswers: boolean): boolean;
  /** The time of the last attempt that an endpoint has answered, by the monotonic clock; -Infinity if there was none. */
  lastAnswerMs(endpoint: string): number;
  release(endpoint: string): void;
  unreachable(): ReadonlySet<string>;
}

type Endpoint = ReturnType<typeof newEndpoint>;

function newEndpoint({ made, answered }: Attempts, nowMs: number) {
  return {
    made,
    answered,
    /** The attempts since the last answer, or since the reading before it. */
    unanswered: 0,
    /** The time of a reading before the first of them was made. */
    silentSinceMs: nowMs,
    /** The time of the first reading with one of them. */
    missedAtMs: nowMs,
    /** The time of the last answer to an attempt; -Infinity if there was none. */
    answeredAtMs: -Infinity,
    seenAtMs: nowMs,
    state: "used" as "used" | "suspect" | "unreachable",
    /** The time of the change to this state. */
    stateSinceMs: nowMs,
    /** The suspicions without a result since the last answer. */
    suspicions: 0,
    /** The time before which it is not suspected again. */
    restUntilMs: 0,
    /** Whether its probes are evidence: it has answered one, and has since not answered attempts while its probes failed. */
    answersProbes: false,
    /** The time of the last probe if it was unanswered and is evidence; -Infinity otherwise. */
    probesFailedAtMs: -Infinity,
    /** The time after which its probes are tried again while it is used. */
    tryAtMs: nowMs,
    /** The probes answered in a row since it became unreachable. */
    recoveries: 0,
    /** The number of times that it became unreachable. */
    ejections: 0,
  };
}

/**
 * The pause after a suspicion without a result. An endpoint that fails during it is still detected before Linux retransmits a
 * SYN after 1 s.
 */
const FIRST_REST_MS = 250;
/** The maximum pause, which limits the probes of an endpoint that is overloaded for a long time. */
const LONGEST_REST_MS = 2_000;
/** The time after which an endpoint without attempts is forgotten. */
const MEMORY_MS = 3_600_000;
/** The maximum number of probes that a repeatedly failing endpoint must answer. */
const MOST_RECOVERY_PROBES = 16;
/** The time after which the probes of a used endpoint are tried again: a network policy may have changed. */
const TRIED_MS = 600_000;
/** The same for an endpoint that does not answer them. */
const TRIED_IN_VAIN_MS = 60_000;

/** A detector that has not read any counts. `now` is a monotonic clock in milliseconds. */
export function createFailureDetector(thresholds: Thresholds, now: () => number): FailureDetector {
  const endpoints = new Map<string, Endpoint>();
  const left = new Set<string>();
  let readAtMs: number | undefined;

  const enter = (endpoint: Endpoint, state: Endpoint["state"]) => {
    Object.assign(endpoint, { state, stateSinceMs: now(), recoveries: 0 });
  };

  const release = (name: string) => {
    left.delete(name);
    const endpoint = endpoints.get(name)!;
    enter(endpoint, "used");
    endpoint.unanswered = 0;
  };

  return {
    note(counts) {
      const nowMs = now();
      const suspects: string[] = [];
      for (const [name, attempts] of counts) {
        // Counts from before the first reading may be old.
        const endpoint = endpoints.get(name) ?? newEndpoint(readAtMs === undefined ? attempts : NO_ATTEMPTS, nowMs);
        endpoints.set(name, endpoint);
        if (noteAttempts(endpoint, attempts, nowMs, readAtMs) && left.has(name)) release(name);
        if (!isSuspicious(endpoint, thresholds, nowMs)) continue;
        enter(endpoint, "suspect");
        suspects.push(name);
      }
      readAtMs = nowMs;
      forget(endpoints, counts, nowMs);
      return suspects;
    },
    takeUntried(most) {
      const nowMs = now(), taken = [...left].slice(0, most);
      for (const name of taken) {
        left.delete(name);
        left.add(name);
      }
      for (const [name, endpoint] of endpoints) {
        if (taken.length === most) break;
        if (endpoint.state !== "used" || nowMs < endpoint.tryAtMs || endpoint.seenAtMs !== readAtMs) continue;
        endpoint.tryAtMs = nowMs + TRIED_IN_VAIN_MS;
        taken.push(name);
      }
      return taken;
    },
    noteProbe(name, result) {
      const endpoint = endpoints.get(name);
      if (endpoint === undefined || result === "unknown") return;
      const isAnswered = result === "answered", nowMs = now();
      if (isAnswered) {
        Object.assign(endpoint, { answersProbes: true, probesFailedAtMs: -Infinity, tryAtMs: nowMs + TRIED_MS });
      } else if (endpoint.answersProbes) endpoint.probesFailedAtMs = nowMs;
      if (endpoint.state !== "unreachable") return;
      endpoint.recoveries = isAnswered ? endpoint.recoveries + 1 : 0;
      if (mayBeBack(endpoint, thresholds, nowMs)) release(name);
    },
    isFailing: (name) => isFailing(endpoints.get(name)!),
    judge(name, anotherAnswers) {
      const endpoint = endpoints.get(name)!;
      if (isFailing(endpoint) && anotherAnswers) {
        enter(endpoint, "unreachable");
        endpoint.ejections++;
        left.add(name);
        return true;
      }
      const restMs = Math.min(FIRST_REST_MS * 2 ** endpoint.suspicions, LONGEST_REST_MS);
      enter(endpoint, "used");
      Object.assign(endpoint, { unanswered: 0, restUntilMs: now() + restMs });
      endpoint.suspicions++;
      return false;
    },
    lastAnswerMs: (name) => endpoints.get(name)?.answeredAtMs ?? -Infinity,
    release,
    unreachable: () => left,
  };
}

const NO_ATTEMPTS: Attempts = { made: 0, answered: 0 };

/**
 * Notes the counts of a reading. Returns whether an answer shows that the endpoint is alive although its probe failed: it is
 * later than the probe, which then is no evidence.
 * @param readAtMs the time of the previous reading
 */
function noteAttempts(endpoint: Endpoint, { made, answered }: Attempts, nowMs: number, readAtMs = nowMs): boolean {
  const newlyMade = increase(endpoint.made, made), newlyAnswered = increase(endpoint.answered, answered);
  Object.assign(endpoint, { made, answered, seenAtMs: nowMs });
  if (newlyAnswered === 0) {
    if (newlyMade > 0 && endpoint.unanswered === 0) {
      Object.assign(endpoint, { silentSinceMs: readAtMs, missedAtMs: nowMs });
    }
    endpoint.unanswered += newlyMade;
    return false;
  }
  Object.assign(endpoint, { answeredAtMs: nowMs, suspicions: 0, restUntilMs: 0 });
  // The rest may be on the way, or lost since the last answer.
  const unanswered = Math.max(0, newlyMade - newlyAnswered);
  Object.assign(endpoint, { unanswered, silentSinceMs: nowMs, missedAtMs: nowMs });
  const isProbedInVain = endpoint.probesFailedAtMs > -Infinity && readAtMs >= endpoint.probesFailedAtMs;
  if (isProbedInVain) Object.assign(endpoint, { answersProbes: false, probesFailedAtMs: -Infinity, tryAtMs: nowMs });
  return isProbedInVain;
}

function isSuspicious(endpoint: Endpoint, { attempts, silenceMs }: Thresholds, nowMs: number): boolean {
  return endpoint.state === "used" && endpoint.answersProbes && nowMs >= endpoint.restUntilMs &&
    endpoint.unanswered > 0 &&
    nowMs - (endpoint.unanswered >= attempts ? endpoint.silentSinceMs : endpoint.missedAtMs) >= silenceMs;
}

function isFailing({ probesFailedAtMs, answeredAtMs, stateSinceMs }: Endpoint): boolean {
  return probesFailedAtMs >= stateSinceMs && answeredAtMs < stateSinceMs;
}

/** Whether an unreachable endpoint has answered enough probes, or is to be tried with connections. */
function mayBeBack(endpoint: Endpoint, { recoveryProbes, trialIntervalMs }: Thresholds, nowMs: number): boolean {
  const doublings = endpoint.ejections - 1;
  // If a network policy has begun to drop the probes, only connections can show that it is alive.
  return endpoint.recoveries >= Math.min(recoveryProbes * 2 ** doublings, MOST_RECOVERY_PROBES) ||
    nowMs - endpoint.stateSinceMs >= trialIntervalMs * 2 ** doublings;
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
