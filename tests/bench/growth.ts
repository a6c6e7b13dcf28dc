import type { Measurement } from "./measure.ts";

/**
 * The exponent `e` of a cost that grows as `services ^ e` from one size to another: 0 where it does not depend on the
 * size, 1 where it is proportional to it.
 */
export function growthExponent(
  from: Measurement,
  to: Measurement,
  cost: (measurement: Measurement) => number,
): number {
  return Math.log(cost(to) / cost(from)) / Math.log(to.services / from.services);
}
