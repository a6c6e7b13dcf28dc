import type { FamilySettings } from "./family_settings.ts";
import type { ServicePort, ServicePortKey } from "./service_port.ts";

/** What changed for a family since the revision `base`. */
export interface FamilyDelta {
  /** The revision that holds once this is applied. */
  readonly revision: number;
  /** The revision that this changes; undefined where this is the family's whole state, and nothing else is to remain. */
  readonly base: number | undefined;
  /** The settings where they changed; always there in a whole state. */
  readonly settings: FamilySettings | undefined;
  readonly set: readonly ServicePort[];
  readonly deleted: readonly ServicePortKey[];
  /**
   * The part of a whole state that this is, where it comes in two: the `head` has the service ports that are to be in
   * effect before all others. It says nothing of those others, which the kernel may serve; the `rest` follows it.
   */
  readonly part?: "head" | "rest";
}

/** Whether a family's whole state is known with this delta. */
export function completesState({ base, part }: FamilyDelta): boolean {
  return part === undefined ? base === undefined : part === "rest";
}
