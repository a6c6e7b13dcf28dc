/** The features of a proxy that its configuration turns on. */
import {
  featuresOn,
  type FeatureStatus,
  type Node,
  type RunningFeature,
  type RunningProcessFeature,
} from "../features/mod.ts";
import type { Configuration } from "../config/mod.ts";
import type { Registry } from "../platform/metrics/mod.ts";
import type { CountsOfPorts, SyncReport } from "../core/model/mod.ts";
import type { PlanChanges } from "../core/planning/mod.ts";
import type { TrackedChanges } from "../core/tracking/mod.ts";
import type { Family } from "../platform/mod.ts";

/** The features that are on. */
export interface RunningFeatures {
  /** Starts the features of a configuration, and attaches those that already run (`open`, by name). Call it once. */
  start(
    node: Node,
    configuration: Configuration,
    registry: Registry,
    open: readonly Iterable<readonly [string, Pick<RunningProcessFeature, "startRun">]>[],
  ): Promise<void>;
  planned(changes: TrackedChanges): void;
  changed(family: Family, changes: PlanChanges, startedAtMs: number): void;
  reported(report: SyncReport, triggerTimesMs: readonly number[]): void;
  updateMetrics(): Promise<void>;
  /** The counts that answers show; undefined if no feature has any. */
  counts(): CountsOfPorts | undefined;
  /** The status lines of features, by the name of the feature: about a family, or without one about the node. */
  status(family?: Family): Readonly<Record<string, FeatureStatus>>;
  stopped(): Promise<void>;
}

/** Creates the features of a run; none is on before `start`. */
export function createFeatures(): RunningFeatures {
  const running = new Map<string, RunningFeature>();
  return {
    async start(node, configuration, registry, open) {
      const add = (name: string, started: RunningFeature | undefined) => {
        if (started === undefined) return;
        started.addMetrics?.(registry);
        running.set(name, started);
      };
      for (const [name, feature] of open.flatMap((some) => [...some])) add(name, feature.startRun(node));
      for (const feature of featuresOn(configuration, configuration.modeDescription, node.environment)) {
        const code = await feature.load?.();
        add(feature.name, await code?.start(node, configuration));
      }
    },
    planned: (changes) => running.forEach((feature) => feature.planned?.(changes)),
    changed: (...change) => running.forEach((feature) => feature.changed?.(...change)),
    async updateMetrics() {
      await Promise.all(running.values().map((feature) => feature.updateMetrics?.()));
    },
    counts: () => running.values().find(({ counts }) => counts !== undefined)?.counts,
    reported: (...report) => running.forEach((feature) => feature.reported?.(...report)),
    status: (family) =>
      Object.fromEntries(
        running.entries().flatMap(([name, feature]) => {
          const status = family === undefined ? feature.status?.() : feature.familyStatus?.(family);
          return status === undefined ? [] : [[name, status] as const];
        }),
      ),
    async stopped() {
      await Promise.all(running.values().map((feature) => feature.stopped?.()));
    },
  };
}
