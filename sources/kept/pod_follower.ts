import type { ClusterObject, EndpointSlice } from "../../core/objects/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import type { LivePod, PodReport, PodWatch } from "../../cri/mod.ts";
import { type Clock, type Logger, sameData } from "../../platform/mod.ts";
import { type RevisedCounts, reviseSlices, slicesWithPodsOf } from "./pod_addresses.ts";

/** Options of `createPodFollower`. */
export interface PodFollowerOptions {
  readonly watch: PodWatch;
  /** The name of this node. */
  readonly node: string;
  /** Receives slices whose endpoints have changed since the start, and how many endpoints differ from the kept ones. */
  readonly onChange: (slices: readonly EndpointSlice[], counts: RevisedCounts) => void;
  readonly onProblems: ReportProblems;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Keeps the addresses of kept endpoints up to date with the pods that run. */
export interface PodFollower {
  /** Resolves when the runtime has answered or failed, or after a quarter of a second. */
  heard(): Promise<void>;
  /** Returns the kept objects with current addresses; from now on, changes and problems are reported. */
  start(
    kept: readonly ClusterObject[],
  ): { readonly objects: readonly ClusterObject[]; readonly counts?: RevisedCounts };
  stop(): void;
}

/** The scope of the problem of a runtime that cannot be reached. */
const SCOPE = "container runtime";

/** How long the runtime may delay the kept state: it is on the same node. */
const PATIENCE_MS = 250;

/** Creates a follower, which listens at once and changes nothing before its start. */
export function createPodFollower(
  { watch, node, onChange, onProblems, clock, logger }: PodFollowerOptions,
): PodFollower {
  const first = Promise.withResolvers<void>();
  let pods: readonly LivePod[] | undefined;
  let problem: string | undefined;
  let kept: readonly EndpointSlice[] | undefined;
  let inEffect = new Map<string, EndpointSlice>();
  let counts: RevisedCounts | undefined;

  /** Returns the slices that change. */
  const revise = (): readonly EndpointSlice[] => {
    onProblems(
      SCOPE,
      problem === undefined ? [] : [
        { code: "runtime-unreachable", subject: watch.endpoint, detail: problem },
      ],
    );
    if (kept === undefined || pods === undefined) return [];
    const { slices, ...found } = reviseSlices(node, kept, pods);
    if (!sameData(found, counts)) {
      logger.info("kept endpoints of this node follow the pods of the container runtime", {
        ...found,
        pods: pods.length,
      });
    }
    counts = found;
    const changed = slices.filter((slice) => !sameData(slice, inEffect.get(keyOf(slice))));
    inEffect = new Map(slices.map((slice) => [keyOf(slice), slice]));
    return changed;
  };

  const unfollow = watch.follow((report: PodReport) => {
    if ("pods" in report) pods = report.pods;
    problem = "pods" in report ? undefined : report.problem;
    first.resolve();
    if (kept === undefined) return;
    const changed = revise();
    if (counts !== undefined) onChange(changed, counts);
  });

  return {
    async heard() {
      const cancel = clock.schedule(PATIENCE_MS, first.resolve);
      await first.promise;
      cancel();
    },
    start(objects) {
      kept = slicesWithPodsOf(node, objects);
      inEffect = new Map(kept.map((slice) => [keyOf(slice), slice]));
      const changed = new Map(revise().map((slice) => [keyOf(slice), slice]));
      const current = (object: ClusterObject) =>
        object.kind === "EndpointSlice" ? changed.get(keyOf(object)) ?? object : object;
      return { objects: objects.map(current), counts };
    },
    stop() {
      unfollow();
      kept = undefined;
      onProblems(SCOPE, []);
    },
  };
}

function keyOf({ namespace, name }: EndpointSlice): string {
  return `${namespace}/${name}`;
}
