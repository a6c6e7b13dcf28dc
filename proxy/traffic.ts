import type { Clock, Family } from "../platform/mod.ts";
import type { Configuration } from "../config/mod.ts";
import type { ServicePortKey, TrafficReading } from "../core/model/mod.ts";
import type { TrafficRecorder } from "../observe/traffic/mod.ts";
import type { Registry } from "../observe/mod.ts";
import type { ServedFamily } from "./served_family.ts";
import { CANARY_KEY } from "../core/planning/mod.ts";
import { serviceKeyOf } from "../core/tracking/mod.ts";

/** The counts of traffic of a running proxy. */
export interface Traffic {
  readonly recorder: TrafficRecorder;
  note(family: Family, reading: TrafficReading): void;
  /** Adds the metrics, and returns a function that updates them. */
  addMetrics(registry: Registry): () => Promise<void>;
  /** Reads the counters now, unless that was done within the last second. Resolves when the counts are known. */
  refresh(): Promise<void>;
  stop(): void;
}

/** Options of `startTraffic`. */
export interface TrafficOptions {
  readonly configuration: Pick<Configuration, "traffic" | "modeDescription">;
  readonly families: () => readonly ServedFamily[];
  readonly clock: Clock;
}

/** The time for which counts are current. */
const CURRENT_MS = 1_000;
/** The longest wait for counts that an answer needs. */
const ANSWER_MS = 2_000;
/** Readings take at most this share of the time. */
const READING_SHARE = 0.02;
/** The longest pause after a slow reading, well below the ten minutes after which unread counters expire. */
const LONGEST_PAUSE_MS = 240_000;

/** Reads the counters of traffic periodically. */
export async function startTraffic({ configuration, families, clock }: TrafficOptions): Promise<Traffic> {
  const { addTrafficMetrics, createTrafficRecorder } = await import("../observe/traffic/mod.ts");
  const recorder = createTrafficRecorder({
    clock,
    endpointsOf: (...port) => endpointsOf(families(), ...port),
    coverage: configuration.modeDescription.metrics.countsTraffic || undefined,
  });
  const waiting = new Map<Family, PromiseWithResolvers<void>>();
  let longestMs = 0;
  let cancel = () => {};

  const schedule = () => {
    const slowMs = Math.min(longestMs / READING_SHARE, LONGEST_PAUSE_MS);
    cancel = clock.schedule(Math.max(configuration.traffic.periodMs, slowMs), () => {
      schedule();
      families().forEach((served) => served.readTraffic());
    });
    longestMs = 0;
  };
  schedule();

  const traffic: Traffic = {
    recorder,
    addMetrics(registry) {
      addTrafficMetrics(registry, recorder, configuration.traffic.endpointMetrics);
      return traffic.refresh;
    },
    note(family, reading) {
      longestMs = Math.max(longestMs, reading.durationMs);
      recorder.note(family, reading);
      waiting.get(family)?.resolve();
      waiting.delete(family);
    },
    async refresh() {
      const nowMs = clock.monotonic();
      const isOld = ({ family }: ServedFamily) => (recorder.lastReadMs(family) ?? -Infinity) < nowMs - CURRENT_MS;
      const answers = families().filter((served) => served.hasServicePorts() && isOld(served)).map((served) => {
        const answer = waiting.get(served.family) ?? Promise.withResolvers<void>();
        waiting.set(served.family, answer);
        served.readTraffic();
        return answer.promise;
      });
      if (answers.length === 0) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      const cancelWait = clock.schedule(ANSWER_MS, resolve);
      await Promise.race([Promise.all(answers), promise]);
      cancelWait();
    },
    stop: () => cancel(),
  };
  return traffic;
}

function endpointsOf(
  families: readonly ServedFamily[],
  family: Family,
  key: ServicePortKey,
): ReadonlySet<string> | undefined {
  const served = families.find((one) => one.family === family);
  const name = key.slice(0, key.lastIndexOf("|"));
  if (serviceKeyOf(name) === CANARY_KEY) return undefined;
  const planned = served?.basis.planner.portsOf(serviceKeyOf(name)).find((port) => port.key === key)?.planned;
  return planned && new Set([...planned.clusterEndpoints, ...planned.localEndpoints, ...planned.lingeringEndpoints]);
}
