/** The addresses that the pods of this node have now, in the kept endpoints. */
import type { ClusterObject, EndpointSlice, PodRef, SliceEndpoint } from "../../core/objects/mod.ts";
import type { LivePod } from "../../cri/mod.ts";
import { familyOf } from "../../platform/mod.ts";

/** The number of kept endpoints that differ from the kept state. */
export interface RevisedCounts {
  /** Those with a new address. */
  readonly replaced: number;
  /** Those whose pod does not run, or has no address yet. */
  readonly leftOut: number;
}

/** Kept slices with the current addresses of their pods. */
export interface RevisedSlices extends RevisedCounts {
  readonly slices: readonly EndpointSlice[];
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
 * Gives the endpoints of a node the addresses of its pods, and leaves those out whose pod is not there. Endpoints of other nodes, those without a
 * pod, and those in the network of the node stay as they are.
 */
export function reviseSlices(
  node: string,
  slices: readonly EndpointSlice[],
  pods: readonly LivePod[],
): RevisedSlices {
  const live = new Map(pods.map((pod) => [keyOf(pod, pod.isStatic), pod]));
  let replaced = 0, leftOut = 0;
  const revise = (endpoint: SliceEndpoint, { family }: EndpointSlice): readonly SliceEndpoint[] => {
    if (endpoint.pod === undefined || !isPodOf(node, endpoint)) return [endpoint];
    const pod = live.get(keyOf(endpoint.pod, false)) ?? live.get(keyOf(endpoint.pod, true));
    // The kept address of a pod in the network of the node is that of the node.
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

/** The API knows a static pod by the UID of its mirror pod, the runtime by that of its file: the name identifies it. */
function keyOf({ namespace, name, uid }: PodRef, isStatic: boolean): string {
  return isStatic ? `${namespace}/${name}` : `${namespace}/${name}/${uid}`;
}
