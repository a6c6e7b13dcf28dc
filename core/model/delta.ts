import type { FamilySettings } from "./family_settings.ts";
import type { ServicePort, ServicePortKey } from "./service_port.ts";

/** The changes of a family since the revision `base`, or a full snapshot. */
export interface FamilyDelta {
  /** The revision after this delta. */
  readonly revision: number;
  /** The revision that this delta changes; undefined for a full snapshot, which replaces everything. */
  readonly base: number | undefined;
  /** Undefined if unchanged; always present in a full snapshot. */
  readonly settings: FamilySettings | undefined;
  readonly set: readonly ServicePort[];
  readonly deleted: readonly ServicePortKey[];
  /** TCP endpoints (`address:port`) that have left every EndpointSlice; absent if there are none, or nobody asks. */
  readonly gone?: readonly string[];
  /**
   * The part of a full snapshot that is sent in two parts. The `head` has the service ports that must take effect first
   * and leaves all others in the kernel unchanged; the `rest` follows it.
   */
  readonly part?: "head" | "rest";
}

/** Whether the receiver has the full state of the family after this delta. */
export function completesState({ base, part }: FamilyDelta): boolean {
  return part === undefined ? base === undefined : part === "rest";
}
