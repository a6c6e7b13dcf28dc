import { dirname, join } from "node:path";

/** A file that may hold manifests. */
export interface FoundFile {
  /** Its path, starting as the source's path does. */
  readonly path: string;
  /** Changes whenever the file is replaced, and nearly always when it is written to. */
  readonly fingerprint: string;
}

/** What is at the source's path. */
export interface Found {
  /** The files, in the order of their names. */
  readonly files: readonly FoundFile[];
  /** The folder in which changes are to be watched for. */
  readonly folder: string;
}

const MANIFEST_NAME = /^[^.].*\.(ya?ml|json)$/;

/**
 * Looks at a path: a file, or a folder, of which the files `*.yaml`, `*.yml` and `*.json` directly in it count, hidden ones
 * excepted (editors keep their own there, and a mounted ConfigMap its versions). Links are followed. Throws what Deno
 * throws where the path itself cannot be looked at.
 */
export async function findFiles(path: string): Promise<Found> {
  const info = await Deno.stat(path);
  if (!info.isDirectory) {
    return { files: [{ path, fingerprint: fingerprintOf(info) }], folder: dirname(path) };
  }
  const names: string[] = [];
  for await (const entry of Deno.readDir(path)) if (MANIFEST_NAME.test(entry.name)) names.push(entry.name);
  const files: FoundFile[] = [];
  for (const name of names.sort()) {
    const file = join(path, name);
    const fileInfo = await statIfThere(file);
    if (fileInfo?.isFile) files.push({ path: file, fingerprint: fingerprintOf(fileInfo) });
  }
  return { files, folder: path };
}

/** The folder to watch while there is nothing at the path. */
export function folderOf(path: string): string {
  return dirname(path);
}

async function statIfThere(path: string): Promise<Deno.FileInfo | undefined> {
  try {
    return await Deno.stat(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

function fingerprintOf(info: Deno.FileInfo): string {
  return `${info.dev}:${info.ino}:${info.size}:${info.mtime?.getTime()}:${info.ctime?.getTime()}`;
}
