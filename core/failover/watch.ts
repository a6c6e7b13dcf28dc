import type { Clock } from "../../platform/mod.ts";
import type { AttemptCounts, ServicePortName } from "../model/mod.ts";
import { createFailureDetector, type FailureThresholds } from "./detector.ts";

/** The uses of one endpoint. */
export interface EndpointUses {
  /** The service ports that use it, or leave it out because it is unreachable. */
  readonly servicePorts: readonly ServicePortName[];
  /** Their other endpoints. */
  readonly siblings: readonly string[];
}

/** An endpoint that is unreachable. */
export interface Unreachable {
  readonly endpoint: string;
  readonly servicePorts: readonly ServicePortName[];
}

/** Options of `watchFailures`; durations in milliseconds. */
export interface FailureWatchOptions {
  readonly thresholds: FailureThresholds;
  /** The interval of readings while there are connection attempts. */
  readonly intervalMs: number;
  /** The interval of probes of unreachable endpoints. */
  readonly recoveryIntervalMs: number;
  /** Reads the counts; undefined if there are none or the worker does not answer. */
  readonly read: () => Promise<AttemptCounts | undefined>;
  /** The uses of these endpoints; those that no service port uses are absent. */
  readonly usesOf: (endpoints: ReadonlySet<string>) => ReadonlyMap<string, EndpointUses>;
  /** Probes an endpoint; resolves with whether anything answered. A `thorough` probe is repeated. */
  readonly probe: (endpoint: string, kind: "single" | "thorough") => Promise<boolean>;
  /** Called when the unreachable endpoints have changed. */
  readonly onChange: (unreachable: readonly Unreachable[], changed: ReadonlySet<string>) => void;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** A running detection. */
export interface FailureWatch {
  /** The endpoints that are unreachable now; the same set until it changes. */
  unreachable(): ReadonlySet<string>;
  /** The number of endpoints that became unreachable so far. */
  ejections(): number;
}

/** The interval of readings without connection attempts. */
const IDLE_INTERVAL_MS = 500;
/** A reading may take this share of the time, judged by the shortest of the last ones: the longer ones waited for a processor. */
const READING_SHARE = 0.1;
const JUDGED_READINGS = 8;
/** A reading needs no more of a slow processor than this and, for each endpoint, */
const MOST_READING_MS = 15;
/** this: nft prints an element in 0.03 ms on a fast one. */
const MOST_OF_ENDPOINT_MS = 0.4;
/** The most suspects that are probed at the same time. */
const MOST_PROBED = 32;
/** The most siblings that are probed for an answer. */
const MOST_SIBLINGS = 3;
/** An endpoint with an answer within this time answers. */
const ANSWERS_MS = 2_000;
/** The endpoints of a node fail together: changes within this time are applied together. */
const GATHER_MS = 10;

/** Watches the endpoints of a family until the signal is aborted. */
export function watchFailures(options: FailureWatchOptions): FailureWatch {
  const { clock, signal, usesOf, probe } = options;
  const detector = createFailureDetector(options.thresholds, () => clock.monotonic());
  const waiting: string[] = [];
  let probed = 0, ejections = 0;
  let unreachable: ReadonlySet<string> = new Set();
  let cancelGathering: (() => void) | undefined;
  let cancelReading = () => {};
  let recoveryAtMs = 0, isRecovering = false;
  const readingsMs: number[] = [];
  /** Resolves with the reading that comes next. */
  let reading = Promise.withResolvers<void>();

  const applyChanges = () => {
    cancelGathering = undefined;
    const now: ReadonlySet<string> = new Set(detector.unreachable().keys());
    const changed = now.symmetricDifference(unreachable);
    if (changed.size === 0 || signal.aborted) return;
    unreachable = now;
    const uses = usesOf(now);
    const list = [...now].map((endpoint) => ({ endpoint, servicePorts: uses.get(endpoint)?.servicePorts ?? [] }));
    options.onChange(list, changed);
  };
  const applySoon = () => {
    cancelGathering ??= clock.schedule(GATHER_MS, applyChanges);
  };

  /** Whether any of these endpoints answers a probe; those that have answered an attempt last are asked. */
  const anyAnswersProbe = async (siblings: readonly string[]): Promise<boolean> => {
    const asked = siblings.toSorted((a, b) => detector.lastAnswerMs(b) - detector.lastAnswerMs(a));
    const answers = asked.slice(0, MOST_SIBLINGS).map(async (sibling) =>
      await probe(sibling, "single") || Promise.reject()
    );
    return await Promise.any(answers).catch(() => false);
  };

  /**
   * Whether the others of a suspect that does not answer probes answer this node. With few attempts to judge by, one of them
   * must answer a probe, too: a network policy may drop the probes of all of them.
   */
  const othersAnswer = async (suspect: string, others: readonly string[], sinceMs: number): Promise<boolean> => {
    const isEnough = () =>
      detector.hasEnoughAttempts(suspect) && others.some((one) => detector.lastAnswerMs(one) > sinceMs);
    if (isEnough() || await anyAnswersProbe(others)) return true;
    // On a busy node, there may have been no reading since.
    await reading.promise;
    return isEnough();
  };

  const examine = async (suspect: string): Promise<void> => {
    const uses = usesOf(new Set([suspect])).get(suspect);
    if (uses === undefined) return detector.clear(suspect, "unknown");
    const startedAtMs = clock.monotonic();
    const answered = await probe(suspect, "thorough");
    if (answered || !detector.isSilent(suspect)) return detector.clear(suspect, "answers");
    const others = uses.siblings.filter((sibling) => !detector.unreachable().has(sibling));
    const othersDo = await othersAnswer(suspect, others, startedAtMs);
    if (!detector.isSilent(suspect)) return detector.clear(suspect, "answers");
    if (othersDo) {
      ejections++;
      detector.eject(suspect);
    } else {
      // Nothing answers: the fault may be this node's own.
      detector.clear(suspect, "unknown");
      releaseAlone(uses.siblings);
    }
    applySoon();
  };

  /** Uses unreachable endpoints again if none of their siblings has answered lately: they are no worse than these. */
  const releaseAlone = (siblings: readonly string[]) => {
    const left = new Set(siblings.filter((sibling) => detector.unreachable().has(sibling)));
    const sinceMs = clock.monotonic() - ANSWERS_MS;
    for (const [endpoint, uses] of usesOf(left)) {
      if (!uses.siblings.some((one) => detector.lastAnswerMs(one) >= sinceMs)) detector.release(endpoint);
    }
  };

  const examineWaiting = () => {
    while (probed < MOST_PROBED && waiting.length > 0 && !signal.aborted) {
      probed++;
      examine(waiting.shift()!).finally(() => {
        probed--;
        examineWaiting();
      });
    }
  };

  const recover = async (): Promise<void> => {
    const left = new Set(detector.unreachable().keys()), used = usesOf(left);
    for (const endpoint of left) if (!used.has(endpoint)) detector.release(endpoint);
    await Promise.all(
      [...used.keys()].slice(0, MOST_PROBED).map(async (endpoint) => {
        const answered = await probe(endpoint, "single");
        if (detector.unreachable().has(endpoint)) detector.reprobed(endpoint, answered);
      }),
    );
    applySoon();
  };

  const readOnce = async (): Promise<void> => {
    const startedAtMs = clock.monotonic();
    const counts = await options.read();
    if (signal.aborted) return;
    const nowMs = clock.monotonic();
    if (counts) {
      waiting.push(...detector.note(counts));
      reading.resolve();
      reading = Promise.withResolvers();
      examineWaiting();
    }
    if (detector.unreachable().size > 0 && !isRecovering && nowMs >= recoveryAtMs) {
      isRecovering = true;
      recoveryAtMs = nowMs + options.recoveryIntervalMs;
      recover().finally(() => isRecovering = false);
    }
    const least = counts && counts.size > 0 ? options.intervalMs : IDLE_INTERVAL_MS;
    readingsMs.push(nowMs - startedAtMs);
    if (readingsMs.length > JUDGED_READINGS) readingsMs.shift();
    const mostMs = MOST_READING_MS + MOST_OF_ENDPOINT_MS * (counts?.size ?? 0);
    const waitMs = Math.max(least, Math.min(mostMs, ...readingsMs) * (1 / READING_SHARE - 1));
    cancelReading = clock.schedule(waitMs, readOnce);
  };

  cancelReading = clock.schedule(options.intervalMs, readOnce);
  signal.addEventListener("abort", () => {
    cancelReading();
    cancelGathering?.();
  }, { once: true });
  return { unreachable: () => unreachable, ejections: () => ejections };
}
