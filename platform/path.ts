/** POSIX paths. `node:path` would load 130 kB of Node's own code in every isolate (docs/bottlenecks.md). */

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
