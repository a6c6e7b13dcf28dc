/** The figures that a sync in any mode can report. */
export interface CommonFigures {
  /** Chains or elements that another program had changed and the sync repaired. */
  readonly drift_repaired: number;
  /** Stale conntrack entries of UDP flows that were removed: their endpoint or service is gone. */
  readonly conntrack_deleted: number;
  /** The duration of that removal in milliseconds. */
  readonly conntrack_ms: number;
  /** Failed attempts to remove leftovers of other modes and of kube-proxy. */
  readonly cleanup_failures: number;
}

const COMMON: Readonly<Record<keyof CommonFigures, true>> = {
  drift_repaired: true,
  conntrack_deleted: true,
  conntrack_ms: true,
  cleanup_failures: true,
};

/** Whether this is the name of a figure that every mode may report. */
export function isCommonFigure(name: string): name is keyof CommonFigures {
  return Object.hasOwn(COMMON, name);
}

/**
 * The figures of a sync: the common ones, and those that the description of its mode declares (backends/contract). Absent
 * ones were not counted.
 */
export type SyncFigures<Declared extends string = never> = Readonly<
  Partial<CommonFigures> & Partial<Record<Declared, number>>
>;
