/** Paths of files, and reading text files up to a size, since their authors may not be trusted. */

/** Reads the text of a file. Throws Deno's error, or an Error if the file is larger than `mostBytes`, a device or a pipe. */
export async function readTextWithin(path: string, mostBytes: number): Promise<string> {
  requireWithin(await Deno.stat(path), mostBytes);
  return await Deno.readTextFile(path);
}

/** Reads the text of a file like `readTextWithin`, synchronously. */
export function readTextWithinSync(path: string, mostBytes: number): string {
  requireWithin(Deno.statSync(path), mostBytes);
  return Deno.readTextFileSync(path);
}

function requireWithin({ size, isCharDevice, isBlockDevice, isFifo }: Deno.FileInfo, mostBytes: number): void {
  if (isCharDevice || isBlockDevice) throw new Error("it is a device, not a file");
  // Opening one blocks until a program writes to it, perhaps for ever.
  if (isFifo) throw new Error("it is a pipe, not a file");
  if (size > mostBytes) throw new Error(`it has ${size} bytes, more than the limit of ${mostBytes / 2 ** 20} MiB`);
}

/** Returns undefined for the error of a file that does not exist, as a handler of rejections; throws any other. */
export function ifMissing(error: unknown): undefined {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}

// `node:path` would load 130 kB of Node's own code in every isolate (docs/bottlenecks.md).
const withoutTrailingSlashes = (path: string) => path.replace(/(?<=.)\/+$/, "");

/** Returns the folder of a path: `.` for a bare name, `/` for the root. */
export function dirname(path: string): string {
  const end = withoutTrailingSlashes(path).lastIndexOf("/");
  return end < 0 ? "." : withoutTrailingSlashes(path.slice(0, end + 1));
}

/** Returns the last name of a path, without slashes; empty for the root. */
export function basename(path: string): string {
  const trimmed = withoutTrailingSlashes(path);
  return trimmed.slice(trimmed.lastIndexOf("/") + 1);
}

/** Returns the path of a file whose path is relative to a folder, or absolute. */
export function pathIn(folder: string, file: string): string {
  return file.startsWith("/") ? file : `${folder.replace(/\/+$/, "")}/${file.replace(/^(\.\/+)+/, "")}`;
}
