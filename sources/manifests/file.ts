import type { ClusterObject, Decode } from "../../core/objects/mod.ts";
import { DocumentError, splitDocuments } from "./document.ts";
import { type DocumentObjects, type FoundObject, readObjects } from "./objects.ts";

/** An object of a file, and where it stands. */
export interface PlacedObject {
  readonly object: ClusterObject;
  /** `FILE:LINE`. */
  where(): string;
}

/** A file as it was last read without a mistake. */
export interface ManifestFile {
  readonly objects: readonly PlacedObject[];
  /** What each document said, by its text: one that has not changed is not read again. */
  readonly documents: ReadonlyMap<string, DocumentObjects>;
}

/** Something that is wrong in a file. */
export interface FileProblem {
  /** `FILE:LINE`. */
  readonly where: string;
  readonly message: string;
}

/** What came of reading a file. */
export interface FileReading {
  /** Undefined where a document of it is bad: the file then stays as it was. */
  readonly file: ManifestFile | undefined;
  /** What is wrong with it and has not been said of `before`. */
  readonly problems: readonly FileProblem[];
  /** The kinds of new objects that are none of Sluice's business. */
  readonly ignored: readonly string[];
}

/**
 * Reads the text of the file called `name`, using what is known from before. `breathe` is awaited between documents, so
 * that a large file does not hold up everything else.
 */
export async function readFile(
  name: string,
  text: string,
  before: ManifestFile | undefined,
  decode: Decode,
  breathe: () => Promise<void>,
): Promise<FileReading> {
  const documents = new Map<string, DocumentObjects>();
  const objects: PlacedObject[] = [];
  const problems: FileProblem[] = [];
  const mistakes: FileProblem[] = [];
  const ignored: string[] = [];

  for (const document of splitDocuments(text)) {
    const at = (line: number) => `${name}:${document.line + line - 1}`;
    let content = documents.get(document.text) ?? before?.documents.get(document.text);
    if (content === undefined) {
      try {
        content = readObjects(document.text, decode);
      } catch (error) {
        if (!(error instanceof DocumentError)) throw error;
        mistakes.push({ where: at(error.line), message: `${error.message}; ${consequence(before)}` });
        continue;
      }
      for (const { line, message } of content.problems) problems.push({ where: at(line), message });
      ignored.push(...content.ignored);
      await breathe();
    }
    documents.set(document.text, content);
    for (const found of content.objects) objects.push(place(found, at));
  }
  if (mistakes.length > 0) return { file: undefined, problems: mistakes, ignored: [] };
  return { file: { objects, documents }, problems, ignored };
}

function place(found: FoundObject, at: (line: number) => string): PlacedObject {
  return { object: found.object, where: () => at(found.line()) };
}

function consequence(before: ManifestFile | undefined): string {
  return before === undefined
    ? "nothing of this file is served until it is right"
    : "what this file said before stays in effect";
}
