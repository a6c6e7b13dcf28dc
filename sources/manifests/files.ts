import { basename } from "node:path";
import { errorText, type Logger } from "../../platform/mod.ts";
import type { Decode, SourceSink } from "../../core/objects/mod.ts";
import { type FileReading, type ManifestFile, type PlacedObject, readFile } from "./file.ts";
import type { FoundFile } from "./folder.ts";

/** The files of a source, each as it was last good. */
export interface Files {
  /** Reads those of these files that are new, look different or are named in `touched`; forgets all others. */
  update(found: readonly FoundFile[], touched: ReadonlySet<string>): Promise<void>;
  /** What all of them say, in the order of the files and of their lines. */
  objects(): Iterable<PlacedObject>;
  /** Whether at least one file could be read, or there are none at all. */
  areReadable(): boolean;
}

/** What `createFiles` needs. */
export interface FilesOptions {
  readonly sink: Pick<SourceSink, "problem">;
  readonly logger: Logger;
  readonly readText: (path: string) => Promise<string>;
  readonly decode: Decode;
  /** Called when an update starts; what it returns is awaited now and then and lets others have their turn. */
  readonly startTurn: () => () => Promise<void>;
}

interface KnownFile {
  /** Undefined where the file must be read again, however it looks. */
  readonly fingerprint: string | undefined;
  readonly good: ManifestFile | undefined;
  /** What is wrong with it as it stands, as it was said; empty where nothing is. */
  readonly mistake: string;
}

/** Starts without files. */
export function createFiles(options: FilesOptions): Files {
  const { sink, logger, readText, decode, startTurn } = options;
  let files = new Map<string, KnownFile>();

  const read = async (
    path: string,
    fingerprint: string,
    before: KnownFile | undefined,
    breathe: () => Promise<void>,
  ): Promise<KnownFile | undefined> => {
    let reading: FileReading;
    try {
      reading = await readFile(path, await readText(path), before?.good, decode, breathe);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return undefined;
      const mistake = `it cannot be read: ${errorText(error)}; it is tried again`;
      if (mistake !== before?.mistake) sink.problem(path, mistake);
      return { fingerprint: undefined, good: before?.good, mistake };
    }
    const { file, problems, ignored } = reading;
    const mistake = file === undefined ? problems.map(({ where, message }) => `${where} ${message}`).join("\n") : "";
    // An editor may touch a file many times over; the same mistake is said once.
    if (file !== undefined || mistake !== before?.mistake) {
      for (const { where, message } of problems) sink.problem(where, message);
    }
    for (const what of ignored) logger.debug("An object in a manifest is of no use here", { file: path, what });
    return { fingerprint, good: file ?? before?.good, mistake };
  };

  return {
    async update(found, touched) {
      const breathe = startTurn();
      const now = new Map<string, KnownFile>();
      for (const { path, fingerprint } of found) {
        const before = files.get(path);
        const unchanged = before?.fingerprint === fingerprint && !touched.has(basename(path));
        const file = unchanged ? before : await read(path, fingerprint, before, breathe);
        if (file !== undefined) now.set(path, file);
      }
      files = now;
    },
    *objects() {
      for (const { good } of files.values()) if (good !== undefined) yield* good.objects;
    },
    areReadable() {
      return files.size === 0 || files.values().some(({ good }) => good !== undefined);
    },
  };
}
