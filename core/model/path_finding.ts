/**
 * The reasons why packets of services may not flow, as far as this node's kernel shows them:
 * - `forwarding-off`: the kernel forwards no packets of the family;
 * - `table-full`: the connection tracking table is full, so new connections are dropped;
 * - `foreign-chain`: a chain of another program drops packets;
 * - `rp-filter`: reverse path filtering is strict, which drops packets on asymmetric routes.
 */
export const PATH_CAUSES = ["forwarding-off", "table-full", "foreign-chain", "rp-filter"] as const;

/** One of `PATH_CAUSES`. */
export type PathCause = typeof PATH_CAUSES[number];

/** Something in the kernel that may stop packets of services. Plain data. */
export interface PathFinding {
  readonly cause: PathCause;
  /** The details in a sentence without its full stop. */
  readonly detail: string;
  /** Whether it stops the pods' packets whatever else holds; otherwise it is only a suspect once packets stop. */
  readonly certain: boolean;
}

/**
 * How much to examine: `settings` reads the kernel settings that are certain to stop packets, which takes milliseconds;
 * `everything` also lists the chains of other programs.
 */
export type PathExamination = "settings" | "everything";
