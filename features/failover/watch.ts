import { type Clock, sleep, untilAborted } from "../../platform/mod.ts";
import type { AttemptCounts, ServicePortName } from "../../core/model/mod.ts";
import { createFailureDetector, type FailureDetector, type Thresholds } from "./detector.ts";
import type { ProbeEndpoint } from "./endpoint_probe.ts";
import type { FailoverOptions } from "./options.ts";

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

/** Options of `watchFailures`. */
export interface FailureWatchOptions {
  readonly settings: Thresholds & Pick<FailoverOptions, "intervalMs" | "recoveryIntervalMs">;
  /** Reads the counts; undefined if there are none or the worker does not answer. */
  readonly read: () => Promise<AttemptCounts | undefined>;
  /** The uses of these endpoints; unused endpoints are absent. */
  readonly usesOf: (endpoints: ReadonlySet<string>) => ReadonlyMap<string, EndpointUses>;
  readonly probe: ProbeEndpoint;
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

const IDLE_INTERVAL_MS = 500;
/** The maximum share of the time for readings, judged by the shortest recent one: longer ones waited for a CPU. */
const READING_SHARE = 0.1;
const JUDGED_READINGS = 8;
/** The maximum CPU time of a reading on a slow processor: a fixed part, */
const MOST_READING_MS = 15;
/** and a part for each endpoint; nft prints an element in 0.03 ms on a fast processor. */
const MOST_OF_ENDPOINT_MS = 0.4;
const MOST_PROBED = 32;
/** The maximum number of endpoints in regular probes at the same time. */
const MOST_TRIED = 100;
const MOST_SIBLINGS = 3;
/** The time within which an answer counts. */
const ANSWERS_MS = 2_000;
/** Endpoints on one node fail together: changes within this time are applied together. */
const GATHER_MS = 10;

/** Watches the endpoints of a family until the signal is aborted. */
export function watchFailures(options: FailureWatchOptions): FailureWatch {
  const { clock, signal, usesOf, settings } = options;
  const detector = createFailureDetector(settings, () => clock.monotonic());
  let ejections = 0;
  let unreachable: ReadonlySet<string> = new Set();
  /** When endpoints are tried again; Infinity while they are. */
  let tryAtMs = 0;

  const applyChanges = () => {
    const now: ReadonlySet<string> = new Set(detector.unreachable());
    const changed = now.symmetricDifference(unreachable);
    if (changed.size === 0 || signal.aborted) return;
    unreachable = now;
    const uses = usesOf(now);
    const list = [...now].map((endpoint) => ({ endpoint, servicePorts: uses.get(endpoint)?.servicePorts ?? [] }));
    options.onChange(list, changed);
  };
  const applySoon = gathering(clock, applyChanges);

  const probe: ProbeEndpoint = async (endpoint, kind) => {
    if (signal.aborted) return "unknown";
    const result = await options.probe(endpoint, kind);
    detector.noteProbe(endpoint, result);
    return result;
  };

  const examine = async (suspect: string): Promise<void> => {
    const siblings = usesOf(new Set([suspect])).get(suspect)?.siblings;
    if (siblings) await probe(suspect, "thorough");
    if (!siblings || !detector.isFailing(suspect)) return void detector.judge(suspect, false);
    const anotherAnswers = await anyAnswersProbe(detector, probe, siblings);
    if (detector.judge(suspect, anotherAnswers)) ejections++;
    // If nothing answers, the fault may be this node's own.
    else if (!anotherAnswers) releaseAlone(detector, usesOf, siblings, clock.monotonic() - ANSWERS_MS);
    applySoon();
  };

  /** Probes unreachable endpoints, and some endpoints not probed recently. Resolves with the earliest time of the next call. */
  const tryUntried = async (): Promise<number> => {
    const tried = new Set(detector.takeUntried(MOST_TRIED));
    if (tried.size === 0) return 0;
    const nextMs = clock.monotonic() + settings.recoveryIntervalMs;
    const used = usesOf(tried);
    for (const endpoint of tried.intersection(detector.unreachable())) {
      if (!used.has(endpoint)) detector.release(endpoint);
    }
    await Promise.all([...used.keys()].map((endpoint) => probe(endpoint, "single")));
    applySoon();
    return nextMs;
  };

  const examineLater = limited(MOST_PROBED, examine);
  const readForever = async () => {
    const pace = createReadingPace(settings.intervalMs);
    for (let waitMs = settings.intervalMs;;) {
      await sleep(clock, waitMs, signal);
      const startedAtMs = clock.monotonic();
      const counts = await options.read();
      const nowMs = clock.monotonic();
      if (counts) examineLater(detector.note(counts));
      if (nowMs >= tryAtMs) {
        tryAtMs = Infinity;
        tryUntried().then((nextMs) => tryAtMs = nextMs);
      }
      waitMs = pace.waitMs(nowMs - startedAtMs, counts?.size ?? 0);
    }
  };
  untilAborted(readForever(), signal);
  return { unreachable: () => unreachable, ejections: () => ejections };
}

/** Whether any reachable one of these endpoints answers a probe; the ones with the latest answered attempts are probed. */
async function anyAnswersProbe(
  { unreachable, lastAnswerMs }: FailureDetector,
  probe: ProbeEndpoint,
  siblings: readonly string[],
): Promise<boolean> {
  const reachable = siblings.filter((sibling) => !unreachable().has(sibling));
  const asked = reachable.sort((a, b) => lastAnswerMs(b) - lastAnswerMs(a)).slice(0, MOST_SIBLINGS);
  const answers = asked.map(async (sibling) => await probe(sibling, "single") === "answered" || Promise.reject());
  return await Promise.any(answers).catch(() => false);
}

/** Uses unreachable endpoints again if none of their siblings has answered since that time. */
function releaseAlone(
  { unreachable, lastAnswerMs, release }: FailureDetector,
  usesOf: FailureWatchOptions["usesOf"],
  siblings: readonly string[],
  sinceMs: number,
): void {
  const left = new Set(siblings.filter((sibling) => unreachable().has(sibling)));
  for (const [endpoint, uses] of usesOf(left)) {
    if (!uses.siblings.some((one) => lastAnswerMs(one) >= sinceMs)) release(endpoint);
  }
}

/** Returns a function that has `apply` called soon, once for all calls until then. */
function gathering(clock: Clock, apply: () => void): () => void {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    clock.schedule(GATHER_MS, () => {
      isDue = false;
      apply();
    });
  };
}

/** Returns a function that has `act` called with each of its items, with at most `most` of them at a time. */
function limited(
  most: number,
  act: (item: string) => Promise<void>,
): (items: readonly string[]) => void {
  const waiting: string[] = [];
  let running = 0;
  const next = () => {
    while (running < most && waiting.length > 0) {
      running++;
      act(waiting.shift()!).finally(() => {
        running--;
        next();
      });
    }
  };
  return (items) => {
    waiting.push(...items);
    next();
  };
}

/** Decides how long to wait after each reading, from its duration and the number of endpoints with attempts. */
function createReadingPace(intervalMs: number): { waitMs(readingMs: number, endpoints: number): number } {
  const readingsMs: number[] = [];
  return {
    waitMs(readingMs, endpoints) {
      readingsMs.push(readingMs);
      if (readingsMs.length > JUDGED_READINGS) readingsMs.shift();
      const mostMs = MOST_READING_MS + MOST_OF_ENDPOINT_MS * endpoints;
      const idleMs = endpoints > 0 ? intervalMs : IDLE_INTERVAL_MS;
      return Math.max(idleMs, Math.min(mostMs, ...readingsMs) * (1 / READING_SHARE - 1));
    },
  };
}
