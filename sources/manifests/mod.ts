/**
 * The source for YAML or JSON manifests, read again when they change.
 *
 *   files.ts     finds and reads the files
 *   document.ts  splits and parses YAML and JSON documents
 *
 * In: a file or folder. Out: objects, to a `SourceSink`. May touch: the files.
 */
import {
  type ClusterObject,
  type Decode,
  decodeObject,
  KINDS,
  refOf,
  refText,
  type Source,
  type SourceSink,
} from "../../core/objects/mod.ts";
import type { Problem } from "../../core/problems/mod.ts";
import {
  basename,
  type ClockAndLogger,
  dirname,
  fileErrorText,
  type OpenWatch,
  readTextWithin,
  sameData,
  startTurn,
  watchChanges,
} from "../../platform/mod.ts";
import { findFiles, type FoundFile, type ManifestFile, objectsOf, type PlacedObject, readFile } from "./files.ts";
export { findFiles } from "./files.ts";

const MOST_BYTES = 64 * 2 ** 20;

/** Options of `createManifestSource`. */
export interface ManifestSourceOptions extends ClockAndLogger {
  /** A file of manifests, or a folder with files `*.yaml`, `*.yml` and `*.json`. */
  readonly path: string;
  /** Decodes objects; decodeObject by default. */
  readonly decode?: Decode;
  /** Reads a file; `readTextWithin` by default. */
  readonly readText?: (path: string) => Promise<string>;
  /** Opens a watch on a folder; Deno.watchFs by default. */
  readonly openWatch?: OpenWatch;
  /** The quiet period before a folder's files are read; 100 by default. */
  readonly quietMs?: number;
  /** The interval of checks of the files without an event; 3000 by default. */
  readonly pollMs?: number;
}

/**
 * A source that reads manifests (YAML with one or more documents, JSON, lists of objects) and follows their changes. An error
 * in a file is reported with its line, and the file's last valid version stays in effect; a file removed from a folder removes
 * its objects. Of duplicate objects the first one counts, in the order of file names and lines. Neither a missing path nor a set
 * of invalid files may look like a cluster without services: `synced` waits for the first one that can be read, and a path that
 * disappears later changes nothing.
 */
export function createManifestSource(options: ManifestSourceOptions): Source {
  const { path, clock, logger, openWatch, quietMs = 100, pollMs = 3000 } = options;
  return {
    async run(sink, signal) {
      const changes = watchChanges({ clock, logger, signal, openWatch, quietMs, pollMs });
      const emit = createEmitter(sink);
      const files = createFiles(options, sink);
      let synced = false;
      let isNew = true;

      /** Finds the files; undefined if the path is missing or cannot be accessed. */
      const find = async () => {
        const scope = `path ${path}`;
        try {
          const found = await findFiles(path);
          sink.problems(scope, []);
          return found;
        } catch (error) {
          const isMissing = error instanceof Deno.errors.NotFound;
          const reason = isMissing ? "no such file or folder" : `cannot be accessed: ${fileErrorText(error)}`;
          const detail = synced ? `${reason}; its last valid version stays in effect` : reason;
          sink.problems(scope, [{ code: "file-unreadable", subject: path, detail }]);
          if (isMissing) await changes.watch(dirname(path));
          return undefined;
        }
      };

      let touched: ReadonlySet<string> = new Set();
      while (!signal.aborted) {
        const found = await find();
        if (found !== undefined) {
          await changes.watch(found.folder);
          if (await files.update(found.files, touched)) isNew = true;
        }
        if (signal.aborted) break;
        if (synced || found !== undefined && files.areReadable()) {
          if (isNew) await emit(files.objects());
          isNew = false;
          if (!synced) { for (const kind of KINDS) sink.synced(kind); }
          synced = true;
        }
        touched = await changes.next();
      }
    },
  };
}

interface KnownFile {
  /** Undefined if the file must be read again even if it looks unchanged. */
  readonly fingerprint: string | undefined;
  readonly valid: ManifestFile | undefined;
}

function createFiles(
  { readText = (path) => readTextWithin(path, MOST_BYTES), decode = decodeObject, clock, logger }:
    ManifestSourceOptions,
  sink: SourceSink,
) {
  let files = new Map<string, KnownFile>();

  const read = async (
    { path, fingerprint }: FoundFile,
    before: ManifestFile | undefined,
    yieldTurn: () => Promise<void>,
  ): Promise<KnownFile> => {
    try {
      const { valid, problems, ignored } = await readFile(path, await readText(path), before, decode, yieldTurn);
      sink.problems(path, problems);
      for (const what of ignored) logger.debug("ignoring object in manifest", { file: path, what });
      return { fingerprint, valid: valid ?? before };
    } catch (error) {
      // One that is gone since it was found may be gone with its folder: the next look tells.
      if (!(error instanceof Deno.errors.NotFound)) {
        const detail = `cannot be read: ${fileErrorText(error)}`;
        sink.problems(path, [{ code: "file-unreadable", subject: path, detail }]);
      }
      return { fingerprint: undefined, valid: before };
    }
  };

  return {
    /**
     * Reads the files that are new, changed or named in `touched`; drops files not in `found`. Returns whether the valid files
     * differ from those before.
     */
    async update(found: readonly FoundFile[], touched: ReadonlySet<string>): Promise<boolean> {
      const yieldTurn = startTurn(clock);
      const now = new Map<string, KnownFile>();
      for (const one of found) {
        const before = files.get(one.path);
        // What takes the place of a known file is an error, so that its objects stay.
        if (before === undefined && !one.isFile) continue;
        const unchanged = before?.fingerprint === one.fingerprint && !touched.has(basename(one.path));
        now.set(one.path, unchanged ? before : await read(one, before?.valid, yieldTurn));
      }
      for (const path of files.keys()) if (!now.has(path)) sink.problems(path, []);
      const valid = (of: ReadonlyMap<string, KnownFile>) => [...of.values()].map(({ valid }) => valid);
      const [before, after] = [valid(files), valid(now)];
      files = now;
      return before.length !== after.length || after.some((file, index) => file !== before[index]);
    },
    /** The objects of all files, in the order of files and lines. */
    *objects() {
      for (const [path, { valid }] of files) if (valid !== undefined) yield* objectsOf(path, valid);
    },
    /** Whether at least one file could be read, or there are none. */
    areReadable: () => files.size === 0 || files.values().some(({ valid }) => valid !== undefined),
  };
}

/** Returns a function that reports all objects, of duplicates the first, as differences to the last report. */
function createEmitter(sink: SourceSink): (objects: Iterable<PlacedObject>) => Promise<void> {
  let reported = new Map<string, ClusterObject>();

  return async (objects) => {
    const places = new Map<string, PlacedObject>();
    const duplicates: Problem[] = [];
    for (const placed of objects) {
      const key = refText(refOf(placed.object));
      const first = places.get(key);
      if (first === undefined) {
        places.set(key, placed);
        continue;
      }
      duplicates.push({
        code: "object-duplicated",
        subject: await placed.where(),
        detail: `${key} is also defined at ${await first.where()}; this duplicate is ignored`,
      });
    }
    sink.problems("manifests: duplicates", duplicates);

    const now = new Map<string, ClusterObject>();
    for (const [key, object] of reported) if (!places.has(key)) sink.delete(refOf(object));
    for (const [key, { object }] of places) {
      const before = reported.get(key);
      const same = before !== undefined && sameData(before, object);
      if (!same) sink.set(object);
      now.set(key, same ? before : object);
    }
    reported = now;
  };
}
