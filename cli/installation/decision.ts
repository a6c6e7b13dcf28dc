/** The action of install on a file. */
export type Decision =
  | "write" // does not exist
  | "replace" // unchanged since an earlier installation
  | "same" // already has the wanted content
  | "keep"; // edited, or not from an installation

/** Hashes of a file's content. */
export interface FileHashes {
  /** Content to install. */
  readonly wanted: string;
  /** Content on disk; undefined if the file does not exist. */
  readonly found: string | undefined;
  /** Content written by the last installation; undefined if it wrote none. */
  readonly recorded: string | undefined;
}

/**
 * Decides what install does with a file. Edited files are kept. The program is always replaced; an existing file of kind
 * `yours` never is.
 */
export function decideInstallation(
  { wanted, found, recorded }: FileHashes,
  kind: "program" | "yours" | "shipped",
): Decision {
  if (found === undefined) return "write";
  if (found === wanted) return "same";
  if (kind === "program") return "replace";
  return kind === "shipped" && found === recorded ? "replace" : "keep";
}

/** Whether uninstall removes an installed file: if it is unedited, or with `all`. */
export function decideRemoval({ found, recorded }: Omit<FileHashes, "wanted">, all: boolean): boolean {
  return found !== undefined && (all || found === recorded);
}
