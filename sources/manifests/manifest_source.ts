/**
 * The cluster's state from Kubernetes manifests: a file or a folder of them, watched, so that Sluice runs without a
 * cluster.
 */
import {
  type Clock,
  errorText,
  type Logger,
  openDenoWatch,
  type OpenWatch,
  startTurn,
  watchChanges,
} from "../../platform/mod.ts";
import { type Decode, decodeObject, KINDS, type Source, type SourceSink } from "../../core/objects/mod.ts";
import { createEmitter } from "./emitter.ts";
import { createFiles } from "./files.ts";
import { findFiles, folderOf, type Found } from "./folder.ts";

/** What a manifest source needs. */
export interface ManifestSourceOptions {
  /** A file of manifests, or a folder with files `*.yaml`, `*.yml` and `*.json`. */
  readonly path: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** How objects are read; decodeObject by default. */
  readonly decode?: Decode;
  /** Reads a file; Deno.readTextFile by default. */
  readonly readText?: (path: string) => Promise<string>;
  /** Opens a watch on a folder; Deno.watchFs by default, and without one the files are looked at every `pollMs`. */
  readonly openWatch?: OpenWatch;
  /** How long a folder must have been quiet before its files are read; 100 by default. */
  readonly quietMs?: number;
  /** How often the files are looked at without an event; 3000 by default. */
  readonly pollMs?: number;
}

/**
 * A source that reads manifests (YAML with one or more documents, JSON, lists of objects) and follows their changes. A
 * file with a mistake is reported with its line, and what the file last said stays in effect; a removed file takes its
 * objects along. Of an object in two places the first one counts, in the order of file names and lines. `synced` is said
 * once something could be read: neither a path where nothing is nor files of which every one is wrong from the start
 * may look like a cluster without services.
 */
export function createManifestSource(options: ManifestSourceOptions): Source {
  const { path, clock, logger, readText = Deno.readTextFile, openWatch = openDenoWatch } = options;
  const { decode = decodeObject } = options;
  const { quietMs = 100, pollMs = 3000 } = options;
  return {
    async run(sink, signal) {
      const changes = watchChanges({ clock, logger, signal, openWatch, quietMs, longestQuietMs: 10 * quietMs, pollMs });
      const emitter = createEmitter(sink);
      const files = createFiles({ sink, logger, readText, decode, startTurn: () => startTurn(clock) });
      const pathProblem = createPathProblem(path, sink);
      let synced = false;

      let touched: ReadonlySet<string> = new Set();
      while (!signal.aborted) {
        const found = await lookAt(path, (error) => pathProblem.report(error, synced));
        if (found !== undefined) {
          await changes.watch(found.folder);
          await files.update(found.files, touched);
        }
        if (signal.aborted) break;
        if (synced || (found?.exists && files.areReadable())) {
          emitter.emit(files.objects());
          if (!synced) { for (const kind of KINDS) sink.synced(kind); }
          synced = true;
        }
        touched = await changes.next();
      }
    },
  };
}

interface Look extends Found {
  readonly exists: boolean;
}

/** What is at the path; undefined where it cannot be told. `report` hears what is wrong with it, undefined for nothing. */
async function lookAt(path: string, report: (error: unknown) => void): Promise<Look | undefined> {
  try {
    const found = await findFiles(path);
    report(undefined);
    return { ...found, exists: true };
  } catch (error) {
    report(error);
    if (!(error instanceof Deno.errors.NotFound)) return undefined;
    return { files: [], folder: folderOf(path), exists: false };
  }
}

/** What is wrong with the path itself, said once however often it is tried again. */
function createPathProblem(path: string, sink: SourceSink) {
  let said: string | undefined;
  return {
    report(error: unknown, synced: boolean) {
      const message = error === undefined
        ? undefined
        : error instanceof Deno.errors.NotFound
        ? `there is no such file or folder; ${synced ? "its objects are gone, and it" : "it"} is waited for`
        : `it cannot be looked at: ${errorText(error)}; it is tried again, and what is known stays in effect`;
      if (message !== undefined && message !== said) sink.problem(path, message);
      said = message;
    },
  };
}
