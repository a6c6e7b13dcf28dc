import type { Configuration } from "../../config/mod.ts";
import { createLedger, type Ledger } from "../../core/channel/mod.ts";
import type { ClusterObject } from "../../core/objects/mod.ts";
import { KINDS } from "../../core/objects/cluster_object.ts";
import type { Problem } from "../../core/problems/mod.ts";
import { createHealthCheckPlanner } from "../../core/planning/mod.ts";
import { createTracking, type TrackedChanges, type Tracking } from "../../core/tracking/trackers.ts";
import { silentLogger } from "../../platform/log.ts";
import { createTopic } from "../../platform/topic.ts";
import { type FamilyTopics, type ServedFamily, serveFamily } from "../../node/served_family.ts";
import { accepted } from "../unit/config/parse.ts";
import { createFakeClock, type FakeClock, promisesSettled, settled } from "./clock.ts";
import { createFakeFamilyLink, type FakeFamilyLink } from "./family_link.ts";

/** A family served on the node `here`. */
export interface ServedIPv4 {
  readonly clock: FakeClock;
  readonly configuration: Configuration;
  readonly tracking: Tracking;
  readonly link: FakeFamilyLink;
  readonly family: ServedFamily;
  readonly ledger: Ledger;
  /** The current problems of the family, by scope. */
  readonly problems: ReadonlyMap<string, readonly Problem[]>;
  /** The trigger times of the changes that have taken effect, in milliseconds since 1970, oldest first. */
  readonly triggerTimesMs: readonly number[];
  /** The endpoint counts of health checks whose rules are in effect, oldest first. */
  readonly reported: readonly (readonly [string, number])[];
  /** The plans that were announced, as the numbers of service ports that they set and delete. */
  readonly announced: readonly (readonly [set: number, deleted: number])[];
  /** Plans these objects, and waits until the worker has received the result. */
  apply(...objects: ClusterObject[]): Promise<void>;
}

/** Serves IPv4 on the node `here`, by a worker that a test controls. `onPlanned` is called after each round of planning. */
export function serveIPv4(
  flags: readonly string[] = [],
  onPlanned: (changes: TrackedChanges) => void = () => {},
): ServedIPv4 {
  const clock = createFakeClock(undefined, promisesSettled), link = createFakeFamilyLink();
  const ledger = createLedger(clock);
  const configuration = accepted(["--hostname-override", "here", "--source", "file:none", ...flags]).configuration;
  const tracking = createTracking({
    kinds: KINDS,
    nodeName: "here",
    bindAddress: "",
    clock,
    onChange: () => {},
    onProblems: () => {},
  });
  const planner = createHealthCheckPlanner("here", tracking);
  const reported: [string, number][] = [], triggerTimesMs: number[] = [];
  const problems = new Map<string, readonly Problem[]>(), syncEnded: FamilyTopics["reported"] = createTopic();
  const announced: [number, number][] = [], planned: FamilyTopics["planned"] = createTopic();
  planned.subscribe((_, { set, deleted }) => announced.push([set.size, deleted.length]));
  syncEnded.subscribe((_, timesMs) => triggerTimesMs.push(...timesMs));
  const family = serveFamily({
    family: "IPv4",
    tracking,
    options: {
      configuration,
      logger: silentLogger,
      logging: { level: "info", format: "text" },
      clock,
      startFamily: (_options, listener) => link.connect(listener),
      cores: 4,
      signal: new AbortController().signal,
    },
    listener: {
      ...{ planned, reported: syncEnded, healthChanged: createTopic() },
      onHealthChecks: (_family, counts) => reported.push(...counts),
      onProblems: (scope, list) => void problems.set(scope, list),
      onBalanceLimit: () => {},
    },
    ledger,
    otherHasServicePorts: () => true,
  });
  family.configure();
  family.start();
  link.reset();
  return {
    clock,
    configuration,
    tracking,
    link,
    problems,
    triggerTimesMs,
    reported,
    announced,
    family,
    ledger,
    async apply(...objects: ClusterObject[]) {
      for (const object of objects) tracking.set(object);
      const changes = tracking.take();
      family.apply(changes);
      onPlanned(changes);
      family.holdHealthChecks(planner(changes));
      await settled();
      await clock.advanceSettled(5_000);
    },
  };
}
