/**
 * The source for YAML or JSON manifests, read again when they change.
 *
 *   files.ts     finds and reads the files, and keeps the last valid version of each
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
  type Clock,
  errorText,
  type Logger,
  type OpenWatch,
  sameData,
  startTurn,
  watchChanges,
} from "../../platform/mod.ts";
import { dirname } from "node:path";
import { createFiles, findFiles, type Found, type PlacedObject } from "./files.ts";
export { findFiles } from "./files.ts";

/** Options of `createManifestSource`. */
export interface ManifestSourceOptions {
  /** A file of manifests, or a folder with files `*.yaml`, `*.yml` and `*.json`. */
  readonly path: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Decodes objects; decodeObject by default. */
  readonly decode?: Decode;
  /** Reads a file; Deno.readTextFile by default. */
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
 * in a file is reported with its line, and the file's last valid version stays in effect; a removed file removes its objects.
 * Of duplicate objects the first one counts, in the order of file names and lines. Sends `synced` once something was read:
 * neither a missing path nor a set of invalid files may look like a cluster without services.
 */
export function createManifestSource(options: ManifestSourceOptions): Source {
  const { path, clock, logger, readText = Deno.readTextFile, openWatch } = options;
  const { decode = decodeObject } = options;
  const { quietMs = 100, pollMs = 3000 } = options;
  return {
    async run(sink, signal) {
      const changes = watchChanges({ clock, logger, signal, openWatch, quietMs, pollMs });
      const emit = createEmitter(sink);
      const files = createFiles({ sink, logger, readText, decode, startTurn: () => startTurn(clock) });
      let synced = false;

      let touched: ReadonlySet<string> = new Set();
      while (!signal.aborted) {
        const found = await findOrReport(path, (error) => reportPath(path, sink, error, synced));
        if (found !== undefined) {
          await changes.watch(found.folder);
          await files.update(found.files, touched);
        }
        if (signal.aborted) break;
        if (synced || (found?.exists && files.areReadable())) {
          emit(files.objects());
          if (!synced) { for (const kind of KINDS) sink.synced(kind); }
          synced = true;
        }
        touched = await changes.next();
      }
    },
  };
}

interface MaybeFound extends Found {
  readonly exists: boolean;
}

/** Finds the files at the path; undefined if it cannot be accessed. Calls `report` with the error, undefined for none. */
async function findOrReport(path: string, report: (error: unknown) => void): Promise<MaybeFound | undefined> {
  try {
    const found = await findFiles(path);
    report(undefined);
    return { ...found, exists: true };
  } catch (error) {
    report(error);
    if (!(error instanceof Deno.errors.NotFound)) return undefined;
    return { files: [], folder: dirname(path), exists: false };
  }
}

/** Reports the problem of the path itself; an undefined error ends it. */
function reportPath(path: string, sink: SourceSink, error: unknown, synced: boolean): void {
  const detail = error instanceof Deno.errors.NotFound
    ? `no such file or folder${synced ? "; its objects are removed" : ""}`
    : `cannot be accessed: ${errorText(error)}; retrying; the last state stays in effect`;
  sink.problems(`path ${path}`, error === undefined ? [] : [{ code: "file-unreadable", subject: path, detail }]);
}

/**
 * Returns a function that reports the objects of all files to a sink as the complete state, as differences to the last
 * report. Of duplicates, the first counts.
 */
function createEmitter(sink: SourceSink): (objects: Iterable<PlacedObject>) => void {
  let reported = new Map<string, ClusterObject>();

  return (objects) => {
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
        subject: placed.where(),
        detail: `${key} is also defined at ${first.where()}; this duplicate is ignored`,
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
