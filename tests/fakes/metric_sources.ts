import type { ProblemCode } from "../../core/problems/mod.ts";
import { FAMILIES } from "../../platform/address.ts";

const NONE = { pending: () => 0, total: () => 0 };

/** Sources of metrics without anything to count. */
export const NOTHING_COUNTED = {
  tracking: { services: NONE, endpoints: { IPv4: NONE, IPv6: NONE } },
  families: FAMILIES.map((family) => (
    { family, changesPending: () => 0, noLocalEndpoints: () => ({ internal: 0, external: 0 }) }
  )),
  featureGates: {},
  now: () => 0,
  problems: () => new Map<ProblemCode, number>(),
  readPacketCounts: () => Promise.resolve({}),
};
