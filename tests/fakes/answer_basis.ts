import type { AnswerBasis } from "../../answers/mod.ts";
import { describeMode } from "../../backends/mod.ts";
import type { ModeDescription } from "../../backends/contract/mod.ts";
import type { Family, FamilySettings, RuleDescription, ServicePort } from "../../core/model/mod.ts";
import type { ClusterObject } from "../../core/objects/cluster_object.ts";
import { createFamilyPlanner } from "../../core/planning/mod.ts";
import { FAMILIES } from "../../platform/address.ts";
import { fakeBalance } from "./balance.ts";
import { fakeSettings } from "./service_port.ts";
import { fakeTracking } from "./tracking.ts";

/** The name of this node in tests. */
export const HERE = "here";

/** Options of `fakeAnswerBasis`. */
export interface FakeBasisOptions {
  readonly settings?: FamilySettings;
  /** That of the settings by default. */
  readonly mode?: ModeDescription;
  readonly hostAddresses?: readonly string[];
  readonly rules?: (key: string) => RuleDescription | undefined;
}

/** The basis of answers for a cluster of these objects, with the planned service ports. */
export function fakeAnswerBasis(
  objects: Iterable<ClusterObject>,
  { settings = fakeSettings(), mode = describeMode(settings.mode), hostAddresses = [], rules }: FakeBasisOptions = {},
): AnswerBasis & { readonly planned: Readonly<Record<Family, readonly ServicePort[]>> } {
  const onProblems = () => {};
  const tracking = fakeTracking();
  for (const object of objects) tracking.set(object);
  const changes = tracking.take();
  const planFamily = (family: Family) => {
    const planner = createFamilyPlanner({
      ...{ family, nodeName: HERE, tracking, onProblems },
      balance: fakeBalance(mode),
    });
    const { set } = planner.plan(changes);
    const basis = {
      planner,
      settings: () => ({ ...settings, nodeIP: tracking.node.state().nodeIPs[family] }),
      revision: () => 1,
      rules: (key: string) => Promise.resolve(rules?.(key)),
      since: () => undefined,
    };
    return { set: [...set.values()], basis };
  };
  const families = Object.fromEntries(FAMILIES.map((family) => [family, planFamily(family)])) as Record<
    Family,
    ReturnType<typeof planFamily>
  >;
  return {
    nodeName: HERE,
    mode,
    tracking,
    families: { IPv4: families.IPv4.basis, IPv6: families.IPv6.basis },
    balance: fakeBalance(mode),
    rulesFrom: "rendering",
    hostAddresses: () => hostAddresses,
    planned: { IPv4: families.IPv4.set, IPv6: families.IPv6.set },
  };
}
