/** Installs and removes Sluice's files on a node, keeping edited ones. */
import { VERSION } from "../../platform/mod.ts";
import { hashOf, hashOfContent, putFile, removeFile } from "./disk.ts";
import { type InstalledFile, PROGRAM } from "./files.ts";
import { readRecord, RECORD } from "./record.ts";

/** The action of install on a file. */
type Decision =
  | "write" // does not exist
  | "replace" // unchanged since an earlier installation
  | "same" // already has the wanted content
  | "keep"; // edited, or not from an installation

/** Hashes of a file's content. */
interface FileHashes {
  /** Content to install. */
  readonly wanted: string;
  /** Content on disk; undefined if the file does not exist. */
  readonly found: string | undefined;
  /** Content written by the last installation; undefined if it wrote none. */
  readonly recorded: string | undefined;
}

/** The action taken on a file, or that a dry run would take. */
export interface Step {
  readonly path: string;
  readonly decision: Decision | "remove";
}

/** Options of `install` and `uninstall`. */
export interface InstallationOptions {
  /** Prefix of every path; empty for the running system. */
  readonly root: string;
  /** Whether to write nothing. */
  readonly dryRun: boolean;
}

/** Writes the files, except edited ones, and records what it wrote. */
export async function install(
  files: readonly InstalledFile[],
  { root, dryRun }: InstallationOptions,
): Promise<readonly Step[]> {
  const recorded = readRecord(root)?.files ?? {};
  const steps: Step[] = [];
  const written: Record<string, string> = { ...recorded };
  for (const file of files) {
    const { path } = file;
    const wanted = await hashOfContent(file);
    const kind = path === PROGRAM ? "program" : file.isYours ? "yours" : "shipped";
    const decision = decideInstallation({ wanted, found: await hashOf(root + path), recorded: recorded[path] }, kind);
    steps.push({ path, decision });
    if (decision === "keep") continue;
    written[path] = wanted;
    if (decision !== "same" && !dryRun) await putFile(root, file);
  }
  if (!dryRun) {
    const text = JSON.stringify({ version: VERSION, files: written }, null, 2) + "\n";
    await putFile(root, { path: RECORD, mode: 0o644, content: { text }, isYours: false });
  }
  return steps;
}

/** Folders used only by an installation. */
const FOLDERS = ["/etc/sluice", "/var/lib/sluice"];

/** Removes the files of the last installation, edited ones only with `all`. */
export async function uninstall({ root, dryRun, all }: InstallationOptions & { readonly all: boolean }): Promise<
  readonly Step[]
> {
  const record = readRecord(root);
  if (record === undefined) throw new Error(`not installed: there is no ${root + RECORD}`);
  const steps: Step[] = [];
  for (const [path, recorded] of Object.entries(record.files)) {
    const found = await hashOf(root + path);
    if (found === undefined) continue;
    const goes = decideRemoval({ found, recorded }, all);
    steps.push({ path, decision: goes ? "remove" : "keep" });
    if (goes && !dryRun) await removeFile(root, path, FOLDERS);
  }
  if (!dryRun) await removeFile(root, RECORD, FOLDERS);
  return steps;
}

/** Returns the remaining files in the installation's folders, such as a kubeconfig. */
export function leftBehind(root: string): readonly string[] {
  return FOLDERS.flatMap((folder) => {
    try {
      return [...Deno.readDirSync(root + folder)].map(({ name }) => `${root}${folder}/${name}`);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  });
}

/**
 * Decides what install does with a file. Edited files are kept. The program is always replaced; an existing file of kind
 * `yours` never is.
 */
function decideInstallation(
  { wanted, found, recorded }: FileHashes,
  kind: "program" | "yours" | "shipped",
): Decision {
  if (found === undefined) return "write";
  if (found === wanted) return "same";
  if (kind === "program") return "replace";
  return kind === "shipped" && found === recorded ? "replace" : "keep";
}

/** Whether uninstall removes an installed file: if it is unedited, or with `all`. */
function decideRemoval({ found, recorded }: Omit<FileHashes, "wanted">, all: boolean): boolean {
  return found !== undefined && (all || found === recorded);
}
