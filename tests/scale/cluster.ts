/** The simulated cluster, and the changes of a rolling restart of some of its pods. */
import type { ClusterObject } from "../../core/objects/cluster_object.ts";
import type { EndpointSlice } from "../../core/objects/cluster_object.ts";
import { clusterService, clusterSlice, ENDPOINTS } from "../bench/cluster.ts";
import { node } from "../fakes/cluster_objects.ts";

/** Number of objects by kind. */
export interface ClusterSize {
  readonly services: number;
  readonly nodes: number;
}

/** The name of a node. */
export function nodeName(index: number): string {
  return `node-${index}`;
}

/** All initial objects; pods are spread over all nodes. */
export function* clusterObjects({ services, nodes }: ClusterSize): Generator<ClusterObject, void> {
  for (let i = 0; i < nodes; i++) {
    yield node(nodeName(i), { zone: `zone-${i % 3}`, addresses: [`10.${64 + (i >> 8)}.0.${i & 255}`] });
  }
  for (let i = 0; i < services; i++) {
    yield clusterService(i);
    yield onNodes(clusterSlice(i), i, nodes);
  }
}

/**
 * The slice updates of a rolling restart of `pods` pods, one per service: each pod first terminates, still serving, and is
 * then replaced by one with another address.
 */
export function* rollingRestart(pods: number, round: number, nodes: number): Generator<EndpointSlice, void> {
  for (let i = 0; i < pods; i++) {
    const slice = onNodes(clusterSlice(i, round - 1), i, nodes);
    const [first, ...others] = slice.endpoints;
    yield { ...slice, endpoints: [{ ...first!, ready: false, terminating: true }, ...others] };
    yield onNodes(clusterSlice(i, round), i, nodes);
  }
}

function onNodes(slice: EndpointSlice, index: number, nodes: number): EndpointSlice {
  const endpoints = slice.endpoints.map((endpoint, i) => (
    { ...endpoint, nodeName: nodeName((index * ENDPOINTS + i) % nodes) }
  ));
  return { ...slice, endpoints };
}
