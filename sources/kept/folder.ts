import { join } from "node:path";
import { errorText } from "../../platform/mod.ts";
import { createStateFile, type StateFile } from "./state_file.ts";
import { storageOf } from "./storage.ts";

/**
 * Opens a state file of a folder, `state` unless another name is given, which is created if missing, for its owner alone (mode 0600) and for as long as the process
 * runs. A file that cannot be written is opened for reading.
 * @throws {Error} if it can neither be written nor read, another process uses it, or another user could have written it
 */
export function openStateDirectory(folder: string, name = "state"): StateFile {
  const path = join(folder, name);
  let readOnly: string | undefined;
  let file: Deno.FsFile;
  try {
    Deno.mkdirSync(folder, { recursive: true, mode: 0o700 });
    file = Deno.openSync(path, { read: true, write: true, create: true, mode: 0o600 });
  } catch (error) {
    readOnly = errorText(error);
    file = openForReading(path, readOnly);
  }
  try {
    requirePrivate(file, path);
    if (readOnly === undefined && !file.tryLockSync(true)) throw new Error(`${path} is in use by another process`);
    return createStateFile(path, storageOf(file), readOnly);
  } catch (error) {
    file.close();
    throw error;
  }
}

function openForReading(path: string, reason: string): Deno.FsFile {
  try {
    return Deno.openSync(path, { read: true });
  } catch {
    throw new Error(`cannot open ${path}: ${reason}`);
  }
}

/** Throws if another user than this process's could have written the file: it decides where connections go. */
function requirePrivate(file: Deno.FsFile, path: string): void {
  const { uid, mode } = file.statSync();
  if (uid !== Deno.uid()) {
    throw new Error(`${path} belongs to another user (remove it, or set another --state-directory)`);
  }
  if (((mode ?? 0) & 0o022) !== 0) {
    throw new Error(`${path} is writable by other users (remove it, or set its mode to 0600)`);
  }
}
