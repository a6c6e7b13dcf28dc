import { dirname, join } from "node:path";

/** A file that may hold manifests. */
export interface FoundFile {
  /** Its path, which starts with the source's path. */
  readonly path: string;
  /** Changes whenever the file is replaced, and nearly always when it is written. */
  readonly fingerprint: string;
}

/** The files at the source's path. */
export interface Found {
  /** The files, sorted by name. */
  readonly files: readonly FoundFile[];
  /** The folder to watch for changes. */
  readonly folder: string;
}

const MANIFEST_NAME = /^[^.].*\.(ya?ml|json)$/;

/**
 * Finds the file at a path, or the `*.yaml`, `*.yml` and `*.json` files directly in a folder, except hidden ones (editors and
 * mounted ConfigMaps keep other versions there). Follows links. Throws Deno's error if the path cannot be accessed.
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

/** The folder to watch while the path does not exist. */
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
