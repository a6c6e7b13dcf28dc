/** What an installation wrote, so that what was changed since can be told from it. */
export interface InstallationRecord {
  readonly version: string;
  /** The SHA-256 of the content by path. */
  readonly files: Readonly<Record<string, string>>;
}

/** Where the record is kept. */
export const RECORD = "/var/lib/sluice/installed.json";

/** Reads the record of the last installation under a root; undefined where there was none. Throws where it is unreadable. */
export function readRecord(root: string): InstallationRecord | undefined {
  let text: string;
  try {
    text = Deno.readTextFileSync(root + RECORD);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
  const record: unknown = JSON.parse(text);
  if (!isRecord(record)) {
    throw new Error(`${root + RECORD} is no record of an installation: remove it and install again`);
  }
  return record;
}

function isRecord(value: unknown): value is InstallationRecord {
  const files = (value as Partial<InstallationRecord> | null)?.files;
  return typeof files === "object" && files !== null && Object.values(files).every((hash) => typeof hash === "string");
}
