import type { ModeDescription } from "../backends/contract/mod.ts";
import type { OptionsOf } from "../platform/schema/mod.ts";
import { registerProblems } from "../core/problems/mod.ts";
import { canary } from "./canary/feature.ts";
import type { Environment, Feature, Process, ProcessFeature, RunningProcessFeature } from "./contract.ts";
import { failover } from "./failover/feature.ts";
import { connectionWeights } from "./connection_weights/feature.ts";
import { nodeCondition } from "./node_condition/feature.ts";
import { site } from "./site/feature.ts";
import { systemd } from "./systemd/feature.ts";
import { telemetry } from "./telemetry/feature.ts";
import { traffic } from "./traffic/feature.ts";

const REGISTERED = [site, traffic, failover, connectionWeights, canary, nodeCondition, systemd] as const;

type Intersection<T> = (T extends unknown ? (one: T) => void : never) extends (all: infer All) => void ? All : never;

type Codes = Intersection<(typeof REGISTERED)[number]["problems"] | typeof telemetry["problems"]>;

declare module "../core/problems/table.ts" {
  interface FeatureProblems extends Codes {}
}

type FeatureFields = Intersection<(typeof REGISTERED)[number]["fields"]>;

/** A feature among others, each of which finds its own options. */
type RegisteredFeature = Omit<Feature<FeatureFields>, "fields"> & Pick<Feature, "fields">;

/** All features, in the order of their start. */
export const FEATURES: readonly RegisteredFeature[] = REGISTERED;

/** The features that are on in a mode; by default, without those that depend on the environment of the process. */
export function featuresOn(
  options: OptionsOf<FeatureFields>,
  mode: ModeDescription,
  environment: Environment = () => undefined,
): readonly RegisteredFeature[] {
  return FEATURES.filter((feature) => feature.isOn(options, mode, environment));
}

/** The fields of all features in the configuration file, in their order. */
export const FEATURE_FIELDS = Object.assign({}, ...FEATURES.map(({ fields }) => fields)) as FeatureFields;

/** All features of the process. */
export const PROCESS_FEATURES: readonly ProcessFeature[] = [telemetry];

/** Starts the features of the process; returns those that are on, by name. */
export async function startProcessFeatures(process: Process): Promise<ReadonlyMap<string, RunningProcessFeature>> {
  const running = new Map<string, RunningProcessFeature>();
  for (const { name, start } of PROCESS_FEATURES) {
    const started = await start(process);
    if (started !== undefined) running.set(name, started);
  }
  return running;
}

for (const { problems } of [...FEATURES, ...PROCESS_FEATURES]) registerProblems(problems);
