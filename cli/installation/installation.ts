/** Installs and removes Sluice's files on a node, keeping edited ones. */
import { parseJsonObject, readBuild } from "../../platform/mod.ts";
import {
  exists,
  FOLDERS,
  hashOf,
  hashOfContent,
  type InstalledFile,
  missingFolders,
  PACKAGED_UNIT,
  putFile,
  removeFile,
  removeFolder,
  type Replacement,
  textFile,
  textOf,
} from "./files.ts";

type Decision =
  | "write" // does not exist
  | "replace" // unchanged since an earlier installation
  | "same" // already has the wanted content
  | "keep"; // edited, or not from an installation

/** The action on a file; a dry run only reports it. */
export interface Step {
  readonly path: string;
  readonly decision: Decision | "remove";
  /** Path of the copy of the replaced file, if one is kept. */
  readonly backup?: string;
}

/**
 * Writes the files below a root folder (empty for the running system), except edited ones, and records the written files. A dry
 * run writes nothing. `nowMs` is in the names of backups. Throws an Error if a package has installed the service.
 */
export async function install(
  files: readonly InstalledFile[],
  root: string,
  dryRun: boolean,
  nowMs: number,
): Promise<readonly Step[]> {
  if (exists(root + PACKAGED_UNIT)) {
    const hidden =
      "the executable and the service that this would write hide those of the package, also after its upgrades";
    const fix = "upgrade the package, or remove it first: apt-get remove sluice, dnf remove sluice";
    throw new Error(`a package has installed ${root + PACKAGED_UNIT}: ${hidden} (${fix})`);
  }
  const record = readRecord(root), recorded = record?.files ?? {};
  const folders = new Set(record?.folders);
  const steps: Step[] = [];
  const written: Record<string, string> = { ...recorded };
  const put = async (file: InstalledFile) => {
    for (const folder of missingFolders(root, file.path)) folders.add(folder);
    await putFile(root, file);
  };
  const putRecord = async () => {
    const { version, commit } = readBuild();
    for (const folder of missingFolders(root, RECORD)) folders.add(folder);
    const content = { version, commit, files: written, folders: [...folders] };
    await putFile(root, textFile(RECORD, JSON.stringify(content, null, 2) + "\n"));
  };

  try {
    for (const file of files) {
      const { path, replacement } = file;
      const wanted = await hashOfContent(file);
      const decision = decide(replacement, wanted, await hashOf(root + path), recorded[path]);
      const backup = decision === "replace" && replacement === "backup" ? `${path}.${dateOf(nowMs)}` : undefined;
      steps.push({ path, decision, backup });
      if (decision === "keep") continue;
      if (decision !== "same" && !dryRun) {
        if (backup !== undefined) await Deno.copyFile(root + path, root + backup);
        await put(file);
      }
      written[path] = wanted;
    }
  } catch (error) {
    // Otherwise nothing would remove what has been written.
    if (!dryRun) await putRecord().catch(() => {});
    throw error;
  }
  if (!dryRun) await putRecord();
  return steps;
}

/** Decides the action of install on a file by its hashes: of the wanted, found and last installed content. */
function decide(
  replacement: Replacement,
  wanted: string,
  found: string | undefined,
  recorded: string | undefined,
): Decision {
  if (found === undefined) return "write";
  // The wanted text may contain an administrator's edits, which are not this installation's.
  if (found === wanted) return replacement === "never" && found !== recorded ? "keep" : "same";
  if (replacement === "always" || replacement === "backup") return "replace";
  return replacement === "unedited" && found === recorded ? "replace" : "keep";
}

/** A time for a file name: `2026-01-31T120000Z`. */
function dateOf(ms: number): string {
  return new Date(ms).toISOString().replace(/:|\.\d+/g, "");
}

/** The state directory of the unit: a later installation may be for another cluster. */
const STATE = "/var/lib/sluice/state";

/** Removes the files of the last installation, edited ones only with `all`. */
export async function uninstall(root: string, dryRun: boolean, all: boolean): Promise<readonly Step[]> {
  const record = readRecord(root);
  if (record === undefined) {
    const ofPackage = "a package is removed by its manager: apt-get purge sluice, dnf remove sluice";
    throw new Error(`not installed by sluice install: there is no ${root + RECORD}; ${ofPackage}`);
  }
  const steps: Step[] = [];
  for (const [path, recorded] of Object.entries(record.files)) {
    const found = await hashOf(root + path);
    if (found === undefined) continue;
    const goes = all || found === recorded;
    steps.push({ path, decision: goes ? "remove" : "keep" });
    if (goes && !dryRun) await removeFile(root, path);
  }
  if (await hashOf(root + STATE) !== undefined) {
    steps.push({ path: STATE, decision: "remove" });
    if (!dryRun) await removeFile(root, STATE);
  }
  if (!dryRun) {
    await removeFile(root, RECORD);
    for (const folder of [...record.folders ?? []].reverse()) await removeFolder(root + folder);
  }
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

/** Record of the files that install wrote, to recognize edits made since. */
export interface InstallationRecord {
  readonly version: string;
  /** Absent in the records of older versions. */
  readonly commit?: string;
  /** SHA-256 of the written content by path. */
  readonly files: Readonly<Record<string, string>>;
  /** The folders that install made, each after those that contain it. Absent in the records of older versions. */
  readonly folders?: readonly string[];
}

/** Path of the record. */
export const RECORD = "/var/lib/sluice/installed.json";

/** Reads the record of the last installation; undefined if there is none. Throws if it is unreadable. */
export function readRecord(root: string): InstallationRecord | undefined {
  const text = textOf(root + RECORD);
  if (text === undefined) return undefined;
  const record: unknown = parseJsonObject(text);
  if (!isInstallationRecord(record)) {
    throw new Error(`${root + RECORD} is not a valid installation record (remove it and install again)`);
  }
  return record;
}

function isInstallationRecord(value: unknown): value is InstallationRecord {
  const { files, folders = [] } = (value ?? {}) as Partial<InstallationRecord>;
  if (!Array.isArray(folders) || !folders.every((folder) => typeof folder === "string")) return false;
  return typeof files === "object" && files !== null && Object.values(files).every((hash) => typeof hash === "string");
}
