import { basename } from "node:path";
import { errorText, type Logger } from "../../platform/mod.ts";
import type { ClusterObject, Decode, SourceSink } from "../../core/objects/mod.ts";
import type { Problem } from "../../core/problems/mod.ts";
import { DocumentError, splitDocuments } from "./document.ts";
import type { FoundFile } from "./folder.ts";
import { type DocumentObjects, type FoundObject, readObjects } from "./objects.ts";

/** The files of a source, each in its last valid version. */
export interface Files {
  /** Reads the files that are new, changed or named in `touched`; drops files not in `found`. */
  update(found: readonly FoundFile[], touched: ReadonlySet<string>): Promise<void>;
  /** The objects of all files, in the order of files and lines. */
  objects(): Iterable<PlacedObject>;
  /** Whether at least one file could be read, or there are none. */
  areReadable(): boolean;
}

/** Options of `createFiles`. */
export interface FilesOptions {
  readonly sink: Pick<SourceSink, "problems">;
  readonly logger: Logger;
  readonly readText: (path: string) => Promise<string>;
  readonly decode: Decode;
  /** Called when an update starts; returns the function that yields to other work. */
  readonly startTurn: () => () => Promise<void>;
}

interface KnownFile {
  /** Undefined if the file must be read again even if it looks unchanged. */
  readonly fingerprint: string | undefined;
  /** Its last valid version. */
  readonly valid: ManifestFile | undefined;
}

/** An empty set of files. */
export function createFiles(options: FilesOptions): Files {
  const { sink, logger, readText, decode, startTurn } = options;
  let files = new Map<string, KnownFile>();

  const read = async (
    path: string,
    fingerprint: string,
    before: KnownFile | undefined,
    yieldTurn: () => Promise<void>,
  ): Promise<KnownFile | undefined> => {
    let reading: FileReading;
    try {
      reading = await readFile(path, await readText(path), before?.valid, decode, yieldTurn);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return undefined;
      const detail = `cannot be read: ${errorText(error)}; retrying`;
      sink.problems(path, [{ code: "file-unreadable", subject: path, detail }]);
      return { fingerprint: undefined, valid: before?.valid };
    }
    const { file, problems, ignored } = reading;
    sink.problems(path, problems);
    for (const what of ignored) logger.debug("ignoring object in manifest", { file: path, what });
    return { fingerprint, valid: file ?? before?.valid };
  };

  return {
    async update(found, touched) {
      const yieldTurn = startTurn();
      const now = new Map<string, KnownFile>();
      for (const { path, fingerprint } of found) {
        const before = files.get(path);
        const unchanged = before?.fingerprint === fingerprint && !touched.has(basename(path));
        const file = unchanged ? before : await read(path, fingerprint, before, yieldTurn);
        if (file !== undefined) now.set(path, file);
      }
      for (const path of files.keys()) if (!now.has(path)) sink.problems(path, []);
      files = now;
    },
    *objects() {
      for (const { valid } of files.values()) if (valid !== undefined) yield* valid.objects;
    },
    areReadable() {
      return files.size === 0 || files.values().some(({ valid }) => valid !== undefined);
    },
  };
}

/** An object and its position in a file. */
export interface PlacedObject {
  readonly object: ClusterObject;
  /** `FILE:LINE`. */
  where(): string;
}

/** The contents of a valid file. */
export interface ManifestFile {
  readonly objects: readonly PlacedObject[];
  /** The objects of each document, by its text: an unchanged one is not parsed again. */
  readonly documents: ReadonlyMap<string, DocumentObjects>;
}

/** The result of reading a file. */
export interface FileReading {
  /** Undefined if a document is invalid: the file's last valid version then stays in effect. */
  readonly file: ManifestFile | undefined;
  /** Every problem in the file; the subjects are `FILE:LINE`. */
  readonly problems: readonly Problem[];
  /** The kinds of new objects that Sluice does not use. */
  readonly ignored: readonly string[];
}

/**
 * Parses the file `name`, reusing unchanged documents of `before`. Awaits `yieldTurn` between documents, so that a large file
 * does not block other work.
 */
export async function readFile(
  name: string,
  text: string,
  before: ManifestFile | undefined,
  decode: Decode,
  yieldTurn: () => Promise<void>,
): Promise<FileReading> {
  const documents = new Map<string, DocumentObjects>();
  const objects: PlacedObject[] = [];
  const problems: Problem[] = [];
  const errors: Problem[] = [];
  const ignored: string[] = [];

  for (const document of splitDocuments(text)) {
    const at = (line: number) => `${name}:${document.line + line - 1}`;
    let content = documents.get(document.text) ?? before?.documents.get(document.text);
    if (content === undefined) {
      try {
        content = readObjects(document.text, decode);
      } catch (error) {
        if (!(error instanceof DocumentError)) throw error;
        const detail = `${error.message}; ${consequence(before)}`;
        errors.push({ code: "file-unreadable", subject: at(error.line), detail });
        continue;
      }
      ignored.push(...content.ignored);
      await yieldTurn();
    }
    documents.set(document.text, content);
    for (const { line, message: detail } of content.problems) {
      problems.push({ code: "object-invalid", subject: at(line), detail });
    }
    for (const found of content.objects) objects.push(place(found, at));
  }
  if (errors.length > 0) return { file: undefined, problems: errors, ignored: [] };
  return { file: { objects, documents }, problems, ignored };
}

function place(found: FoundObject, at: (line: number) => string): PlacedObject {
  return { object: found.object, where: () => at(found.line()) };
}

function consequence(before: ManifestFile | undefined): string {
  return before === undefined
    ? "the file is ignored until it is valid"
    : "the last valid version of the file stays in effect";
}
