/** What becomes of a file of the installation. */
export type Decision =
  | "write" // it is not there
  | "replace" // it is as an earlier installation left it
  | "same" // it is as it should be
  | "keep"; // it was changed, or is not of an installation

/** What is known of a file: hashes of its content. */
export interface Knowledge {
  /** What it should hold. */
  readonly wanted: string;
  /** What it holds; undefined where it is not there. */
  readonly found: string | undefined;
  /** What the last installation wrote; undefined where none did. */
  readonly recorded: string | undefined;
}

/**
 * What becomes of a file at an installation: what somebody changed stays. The program is replaced whatever is there, and
 * a file that is the administrator's own stays whatever it holds.
 */
export function decideInstallation(
  { wanted, found, recorded }: Knowledge,
  kind: "program" | "yours" | "shipped",
): Decision {
  if (found === undefined) return "write";
  if (found === wanted) return "same";
  if (kind === "program") return "replace";
  return kind === "shipped" && found === recorded ? "replace" : "keep";
}

/** Whether a file that an installation wrote is removed: where it is still what was written, or everything is to go. */
export function decideRemoval({ found, recorded }: Omit<Knowledge, "wanted">, all: boolean): boolean {
  return found !== undefined && (all || found === recorded);
}
