/** Keeps the addresses of cached endpoints up to date with the running pods of this node. */
import type {
  ClusterObject,
  EndpointSlice,
  LivePod,
  PodRef,
  PodReport,
  PodWatch,
  SliceEndpoint,
} from "../../core/objects/mod.ts";
import { type ClockAndLogger, familyOf, sameData } from "../../platform/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";

/** The number of endpoints that differ from the cached state. */
export interface RevisedCounts {
  /** Endpoints with a new address. */
  readonly replaced: number;
  /** Endpoints whose pod does not run, or has no address yet. */
  readonly leftOut: number;
}

/** The slices with endpoints of a node's pods. */
export function slicesWithPodsOf(node: string, objects: readonly ClusterObject[]): readonly EndpointSlice[] {
  return objects.filter((object): object is EndpointSlice =>
    object.kind === "EndpointSlice" && object.endpoints.some((endpoint) => isPodOf(node, endpoint))
  );
}

function isPodOf(node: string, { nodeName, pod }: SliceEndpoint): boolean {
  return pod !== undefined && nodeName === node;
}

/**
 * Sets the endpoints of a node to the addresses of its pods, and omits endpoints whose pod does not exist. Endpoints of other
 * nodes, without a pod, or in the host network stay as they are.
 */
export function reviseSlices(
  node: string,
  slices: readonly EndpointSlice[],
  pods: readonly LivePod[],
): RevisedCounts & { readonly slices: readonly EndpointSlice[] } {
  const live = new Map(pods.map((pod) => [keyOf(pod, pod.isStatic), pod]));
  let replaced = 0, leftOut = 0;
  const revise = (endpoint: SliceEndpoint, { family }: EndpointSlice): readonly SliceEndpoint[] => {
    if (endpoint.pod === undefined || !isPodOf(node, endpoint)) return [endpoint];
    const pod = live.get(keyOf(endpoint.pod, false)) ?? live.get(keyOf(endpoint.pod, true));
    // A pod in the host network has the node's address.
    if (pod?.usesHostNetwork || pod !== undefined && pod.addresses === undefined) return [endpoint];
    const address = pod?.addresses?.find((one) => familyOf(one) === family);
    if (address === undefined) {
      leftOut++;
      return [];
    }
    if (address === endpoint.address) return [endpoint];
    replaced++;
    return [{ ...endpoint, address }];
  };
  const revised = slices.map((slice) => (
    { ...slice, endpoints: slice.endpoints.flatMap((endpoint) => revise(endpoint, slice)) }
  ));
  return { slices: revised, replaced, leftOut };
}

/** A static pod has the UID of its mirror pod in the API, and that of its file in the runtime, so its name identifies it. */
function keyOf({ namespace, name, uid }: PodRef, isStatic: boolean): string {
  return isStatic ? `${namespace}/${name}` : `${namespace}/${name}/${uid}`;
}

const SCOPE = "container runtime";

/** The maximum time that the runtime delays the cached state: it is on the same node. */
const PATIENCE_MS = 250;

/** Keeps the addresses of cached endpoints up to date with the running pods. */
interface PodFollower {
  /** Resolves when the runtime has answered or failed, or after a quarter of a second. */
  heard(): Promise<void>;
  /** Returns the cached objects with current addresses; from now on, changes and problems are reported. */
  start(
    kept: readonly ClusterObject[],
  ): { readonly objects: readonly ClusterObject[]; readonly counts?: RevisedCounts };
  stop(): void;
}

interface Served {
  readonly kept: readonly EndpointSlice[];
  readonly inEffect: ReadonlyMap<string, EndpointSlice>;
  readonly counts: RevisedCounts | undefined;
}

/** Keeps the addresses of cached endpoints up to date with the running pods. It listens at once, and changes nothing before its start. */
export function createPodFollower({ watch, node, onChange, onProblems, clock, logger }: ClockAndLogger & {
  readonly watch: PodWatch;
  readonly node: string;
  /** Receives slices whose endpoints have changed since the start, and how many endpoints differ from the cached ones. */
  readonly onChange: (slices: readonly EndpointSlice[], counts: RevisedCounts) => void;
  readonly onProblems: ReportProblems;
}): PodFollower {
  const first = Promise.withResolvers<void>();
  let pods: readonly LivePod[] | undefined;
  let problem: string | undefined;
  let served: Served | undefined;

  const revise = (): readonly EndpointSlice[] => {
    const unreachable = { code: "runtime-unreachable", subject: watch.endpoint, detail: problem ?? "" } as const;
    onProblems(SCOPE, problem === undefined ? [] : [unreachable]);
    if (served === undefined || pods === undefined) return [];
    const { kept, inEffect, counts: before } = served;
    const { slices, ...counts } = reviseSlices(node, kept, pods);
    if (!sameData(counts, before)) {
      const fields = { ...counts, pods: pods.length };
      logger.info("kept endpoints of this node follow the pods of the container runtime", fields);
    }
    served = { kept, inEffect: byKey(slices), counts };
    return slices.filter((slice) => !sameData(slice, inEffect.get(sliceKey(slice))));
  };

  const unfollow = watch.follow((report: PodReport) => {
    if ("pods" in report) pods = report.pods;
    problem = "pods" in report ? undefined : report.problem;
    first.resolve();
    if (served === undefined) return;
    const changed = revise();
    if (served.counts !== undefined) onChange(changed, served.counts);
  });

  return {
    async heard() {
      const cancel = clock.schedule(PATIENCE_MS, first.resolve);
      await first.promise;
      cancel();
    },
    start(objects) {
      const kept = slicesWithPodsOf(node, objects);
      served = { kept, inEffect: byKey(kept), counts: undefined };
      const changed = byKey(revise());
      const current = (object: ClusterObject) =>
        object.kind === "EndpointSlice" ? changed.get(sliceKey(object)) ?? object : object;
      return { objects: objects.map(current), counts: served.counts };
    },
    stop() {
      unfollow();
      served = undefined;
      onProblems(SCOPE, []);
    },
  };
}

function byKey(slices: readonly EndpointSlice[]): ReadonlyMap<string, EndpointSlice> {
  return new Map(slices.map((slice) => [sliceKey(slice), slice]));
}

function sliceKey({ namespace, name }: EndpointSlice): string {
  return `${namespace}/${name}`;
}
