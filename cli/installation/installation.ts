/** Installs and removes Sluice's files on a node, keeping edited ones. */
import { readBuild } from "../../platform/mod.ts";
import { FOLDERS, hashOf, hashOfContent, type InstalledFile, putFile, removeFile, type Replacement } from "./files.ts";

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

/** The action on a file; a dry run only reports it. */
export interface Step {
  readonly path: string;
  readonly decision: Decision | "remove";
  /** Path of the copy of the replaced file, if one is kept. */
  readonly backup?: string;
}

/** Options of `install` and `uninstall`. */
interface InstallationOptions {
  /** Prefix of every path; empty for the running system. */
  readonly root: string;
  /** Whether to write nothing. */
  readonly dryRun: boolean;
}

/** Options of `install`. */
interface InstallOptions extends InstallationOptions {
  /** The time in the names of backups, in milliseconds since 1970. */
  readonly nowMs: number;
}

/** Writes the files, except edited ones, and records the written files. */
export async function install(
  files: readonly InstalledFile[],
  { root, dryRun, nowMs }: InstallOptions,
): Promise<readonly Step[]> {
  const recorded = readRecord(root)?.files ?? {};
  const steps: Step[] = [];
  const written: Record<string, string> = { ...recorded };
  for (const file of files) {
    const { path, replacement } = file;
    const wanted = await hashOfContent(file);
    const hashes = { wanted, found: await hashOf(root + path), recorded: recorded[path] };
    const decision = decideInstallation(hashes, replacement);
    const backup = decision === "replace" && replacement === "backup" ? `${path}.${dateOf(nowMs)}` : undefined;
    steps.push({ path, decision, backup });
    if (decision === "keep") continue;
    written[path] = wanted;
    if (decision === "same" || dryRun) continue;
    if (backup !== undefined) await Deno.copyFile(root + path, root + backup);
    await putFile(root, file);
  }
  if (!dryRun) {
    const { version, commit } = readBuild();
    const text = JSON.stringify({ version, commit, files: written }, null, 2) + "\n";
    await putFile(root, { path: RECORD, mode: 0o644, content: { text } });
  }
  return steps;
}

/** A time for a file name: `2026-01-31T120000Z`. */
function dateOf(ms: number): string {
  return new Date(ms).toISOString().replace(/:|\.\d+/g, "");
}

/** The state directory of the unit: a later installation may be for another cluster. */
const STATE = "/var/lib/sluice/state";

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
    if (goes && !dryRun) await removeFile(root, path);
  }
  if (await hashOf(root + STATE) !== undefined) {
    steps.push({ path: STATE, decision: "remove" });
    if (!dryRun) await removeFile(root, STATE);
  }
  if (!dryRun) await removeFile(root, RECORD);
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

/** Decides the action of install on a file, within its `replacement`. */
function decideInstallation({ wanted, found, recorded }: FileHashes, replacement: Replacement): Decision {
  if (found === undefined) return "write";
  // The wanted text may contain an administrator's edits, which are not this installation's.
  if (found === wanted) return replacement === "never" && found !== recorded ? "keep" : "same";
  if (replacement === "always" || replacement === "backup") return "replace";
  return replacement === "unedited" && found === recorded ? "replace" : "keep";
}

/** Whether uninstall removes an installed file: if it is unedited, or with `all`. */
function decideRemoval({ found, recorded }: Omit<FileHashes, "wanted">, all: boolean): boolean {
  return found !== undefined && (all || found === recorded);
}

/** Record of the files that install wrote, to recognize edits made since. */
export interface InstallationRecord {
  readonly version: string;
  /** Absent in the records of older versions. */
  readonly commit?: string;
  /** SHA-256 of the written content by path. */
  readonly files: Readonly<Record<string, string>>;
}

/** Path of the record. */
export const RECORD = "/var/lib/sluice/installed.json";

/** Reads the record of the last installation; undefined if there is none. Throws if it is unreadable. */
export function readRecord(root: string): InstallationRecord | undefined {
  let text: string;
  try {
    text = Deno.readTextFileSync(root + RECORD);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
  const record: unknown = JSON.parse(text);
  if (!isInstallationRecord(record)) {
    throw new Error(`${root + RECORD} is not a valid installation record (remove it and install again)`);
  }
  return record;
}

function isInstallationRecord(value: unknown): value is InstallationRecord {
  const files = (value as Partial<InstallationRecord> | null)?.files;
  return typeof files === "object" && files !== null && Object.values(files).every((hash) => typeof hash === "string");
}
