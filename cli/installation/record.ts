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
