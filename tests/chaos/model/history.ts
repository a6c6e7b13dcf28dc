/** Random histories of a small cluster: changes, faults and restarts. */
import fc from "fast-check";
import type { NETWORK } from "../../../demo/lab.ts";

/** A pod of the lab. */
export type Pod = keyof typeof NETWORK.pods;

/** The numbers of the services. */
export const SERVICES = [0, 1, 2] as const;

/** The number of a service. */
export type ServiceNumber = (typeof SERVICES)[number];

/** The varied fields of a service. */
export interface ServiceFields {
  readonly type: "ClusterIP" | "NodePort" | "LoadBalancer";
  readonly internal: "Cluster" | "Local";
  readonly external: "Cluster" | "Local";
  /** The clients that loadBalancerSourceRanges admits. */
  readonly allows: "all" | "outside" | "none";
}

/** An endpoint in a slice. */
export interface EndpointFields {
  readonly pod: Pod;
  readonly state: "ready" | "terminating" | "down";
  /** The zone of its topology hint. */
  readonly hint?: string;
}

/** The pods that each slice of a service may contain; disjoint, so that no pod is in two slices. */
export const PODS_OF_SLICE = [["pod-1", "pod-3"], ["pod-2"]] as const satisfies readonly (readonly Pod[])[];

/** One event of a history. */
export type Step =
  | { readonly kind: "set service"; readonly service: ServiceNumber; readonly fields: ServiceFields }
  | { readonly kind: "delete service"; readonly service: ServiceNumber }
  | {
    readonly kind: "set slice";
    readonly service: ServiceNumber;
    readonly slice: number;
    readonly endpoints: readonly EndpointFields[];
  }
  | { readonly kind: "delete slice"; readonly service: ServiceNumber; readonly slice: number }
  /** Sets or removes the node's zone. */
  | { readonly kind: "label node"; readonly zone?: string }
  | { readonly kind: "break watches" }
  /** Breaks watches and expires their resourceVersion (410 Gone). */
  | { readonly kind: "expire watches" }
  /** Half of the tools' runs fail until the next step. */
  | { readonly kind: "fail tools" }
  /** Another program flushes the node's rules. */
  | { readonly kind: "flush rules" }
  | { readonly kind: "restart"; readonly signal: "SIGKILL" | "SIGTERM" }
  /** Waits until everything so far is in effect, then probes it. */
  | { readonly kind: "probe" };

/** Steps in order. */
export type History = readonly Step[];

const ZONES = ["a", "b"];
const LONGEST = 14;

const number = fc.constantFrom(...SERVICES);
const sliceNumber = fc.nat(PODS_OF_SLICE.length - 1);
const fields: fc.Arbitrary<ServiceFields> = fc.record({
  type: fc.constantFrom("ClusterIP", "NodePort", "LoadBalancer"),
  internal: fc.constantFrom("Cluster", "Cluster", "Local"),
  external: fc.constantFrom("Cluster", "Local"),
  allows: fc.constantFrom("all", "all", "outside", "none"),
});
const endpointOf = (pod: Pod): fc.Arbitrary<EndpointFields> =>
  fc.record({
    pod: fc.constant(pod),
    state: fc.constantFrom("ready", "ready", "ready", "terminating", "down"),
    hint: fc.constantFrom(undefined, ...ZONES),
  });
const setSlice: fc.Arbitrary<Step> = fc.tuple(number, sliceNumber).chain(([service, slice]) =>
  fc.record({
    kind: fc.constant("set slice" as const),
    service: fc.constant(service),
    slice: fc.constant(slice),
    endpoints: fc.subarray<Pod>([...PODS_OF_SLICE[slice]!]).chain((pods) => fc.tuple(...pods.map(endpointOf))),
  })
);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: setSlice },
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant("set service" as const), service: number, fields }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("delete service" as const), service: number }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("delete slice" as const), service: number, slice: sliceNumber }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("label node" as const), zone: fc.constantFrom(undefined, ...ZONES) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom("break watches", "expire watches", "fail tools", "flush rules"),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("restart" as const),
      signal: fc.constantFrom("SIGKILL", "SIGTERM"),
    }),
  },
  { weight: 2, arbitrary: fc.constant<Step>({ kind: "probe" }) },
);

/** Random histories, reproducible by seed. */
export function randomHistories(count: number, seed: number): History[] {
  return fc.sample(fc.array(step, { minLength: 4, maxLength: LONGEST, size: "max" }), { numRuns: count, seed });
}
