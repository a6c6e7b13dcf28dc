/** Random histories of a small cluster: what its API says, what goes wrong, and restarts. */
import fc from "fast-check";
import type { NETWORK } from "../../../demo/lab.ts";

/** A pod of the lab. */
export type Pod = keyof typeof NETWORK.pods;

/** The services that there may be, by number. */
export const SERVICES = [0, 1, 2] as const;

/** One of them. */
export type ServiceNumber = (typeof SERVICES)[number];

/** What a service asks for. */
export interface ServiceWish {
  readonly type: "ClusterIP" | "NodePort" | "LoadBalancer";
  readonly internal: "Cluster" | "Local";
  readonly external: "Cluster" | "Local";
  /** Who may use its load balancer address. */
  readonly allows: "everybody" | "outside" | "nobody here";
}

/** An endpoint of a slice. */
export interface EndpointWish {
  readonly pod: Pod;
  readonly state: "ready" | "terminating" | "down";
  /** The zone that it is meant for. */
  readonly hint?: string;
}

/** The pods that each of a service's slices may have, so that no two of them speak of the same one. */
export const PODS_OF_SLICE = [["pod-1", "pod-3"], ["pod-2"]] as const satisfies readonly (readonly Pod[])[];

/** One thing that happens. */
export type Step =
  | { readonly does: "set service"; readonly service: ServiceNumber; readonly wish: ServiceWish }
  | { readonly does: "delete service"; readonly service: ServiceNumber }
  | {
    readonly does: "set slice";
    readonly service: ServiceNumber;
    readonly slice: number;
    readonly endpoints: readonly EndpointWish[];
  }
  | { readonly does: "delete slice"; readonly service: ServiceNumber; readonly slice: number }
  /** This node is in that zone, or in none. */
  | { readonly does: "label node"; readonly zone?: string }
  | { readonly does: "break watches" }
  /** The API server's history is gone, too. */
  | { readonly does: "expire watches" }
  /** Half of the tools' runs fail until the next step. */
  | { readonly does: "fail tools" }
  /** Somebody flushes the rules of the node. */
  | { readonly does: "flush rules" }
  | { readonly does: "restart"; readonly signal: "SIGKILL" | "SIGTERM" }
  /** Everything said so far is waited for and probed. */
  | { readonly does: "probe" };

/** What happens, the first step first. */
export type History = readonly Step[];

const ZONES = ["a", "b"];
const LONGEST = 14;

const number = fc.constantFrom(...SERVICES);
const sliceNumber = fc.nat(PODS_OF_SLICE.length - 1);
const wish: fc.Arbitrary<ServiceWish> = fc.record({
  type: fc.constantFrom("ClusterIP", "NodePort", "LoadBalancer"),
  internal: fc.constantFrom("Cluster", "Cluster", "Local"),
  external: fc.constantFrom("Cluster", "Local"),
  allows: fc.constantFrom("everybody", "everybody", "outside", "nobody here"),
});
const endpointOf = (pod: Pod): fc.Arbitrary<EndpointWish> =>
  fc.record({
    pod: fc.constant(pod),
    state: fc.constantFrom("ready", "ready", "ready", "terminating", "down"),
    hint: fc.constantFrom(undefined, ...ZONES),
  });
const setSlice: fc.Arbitrary<Step> = fc.tuple(number, sliceNumber).chain(([service, slice]) =>
  fc.record({
    does: fc.constant("set slice" as const),
    service: fc.constant(service),
    slice: fc.constant(slice),
    endpoints: fc.subarray<Pod>([...PODS_OF_SLICE[slice]!]).chain((pods) => fc.tuple(...pods.map(endpointOf))),
  })
);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: setSlice },
  {
    weight: 6,
    arbitrary: fc.record({ does: fc.constant("set service" as const), service: number, wish }),
  },
  { weight: 1, arbitrary: fc.record({ does: fc.constant("delete service" as const), service: number }) },
  {
    weight: 1,
    arbitrary: fc.record({ does: fc.constant("delete slice" as const), service: number, slice: sliceNumber }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ does: fc.constant("label node" as const), zone: fc.constantFrom(undefined, ...ZONES) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      does: fc.constantFrom("break watches", "expire watches", "fail tools", "flush rules"),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      does: fc.constant("restart" as const),
      signal: fc.constantFrom("SIGKILL", "SIGTERM"),
    }),
  },
  { weight: 2, arbitrary: fc.constant<Step>({ does: "probe" }) },
);

/** Histories, the same ones for the same seed. */
export function randomHistories(count: number, seed: number): History[] {
  return fc.sample(fc.array(step, { minLength: 4, maxLength: LONGEST, size: "max" }), { numRuns: count, seed });
}
