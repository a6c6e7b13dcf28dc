import { countLines, loadYaml, parseJsonObject } from "../../platform/mod.ts";

/** The text of one document in a file. */
export interface DocumentText {
  readonly text: string;
  /** The file's line at which it starts, from 1. */
  readonly line: number;
}

/** A document that is not YAML or JSON, or not a Kubernetes object. */
export class DocumentError extends Error {
  /** `line` counts from 1 at the start of the document's text. */
  constructor(message: string, readonly line: number) {
    super(message);
    this.name = "DocumentError";
  }
}

/**
 * Splits a file into documents without parsing it: three dashes at the start of a line begin one. A file with YAML directives
 * (`%YAML`), which belong to the document that follows, is not split.
 */
export function splitDocuments(text: string): readonly DocumentText[] {
  if (/^%/m.test(text)) return [{ text, line: 1 }];
  const documents: DocumentText[] = [];
  let start = 0;
  let line = 1;
  for (const { index } of text.matchAll(/^---(?=\s|$)/gm)) {
    if (index > start) {
      const part = text.slice(start, index);
      documents.push({ text: part, line });
      line += countLines(part);
    }
    start = index;
  }
  documents.push({ text: text.slice(start), line });
  return documents;
}

/** A value in a document and its position. */
export interface DocumentValue {
  readonly value: unknown;
  /** From 1 at the start of the document's text. */
  readonly line: number;
}

/**
 * Parses a document: one value, none if there are only comments, or several in a file that could not be split. Rejects with
 * DocumentError for the first error. Loads the parser of YAML only if the document is not JSON.
 */
export async function parseDocument(text: string): Promise<readonly DocumentValue[]> {
  const [mark] = /^(?:---(?=\s))?\s*/.exec(text)!;
  const json = parseJsonObject(text.slice(mark.length));
  if (json !== undefined) return [{ value: json, line: 1 + countLines(mark) }];
  const { parseTree, plainData } = await loadYaml();
  const { documents, errors: [error] } = parseTree(text, { uniqueKeys: true });
  if (error !== undefined) throw new DocumentError(error.message, error.line);
  return documents.map((document) => ({ value: plainData(document), line: document.line }))
    .filter(({ value }) => value !== null && value !== undefined);
}

/**
 * The lines, from 1 at the start of a document's text, of the items in its list of objects. Parses the text again: positions are
 * rarely needed, and keeping them would cost memory for every object.
 */
export async function linesOfItems(text: string): Promise<readonly number[]> {
  const { parseTree } = await loadYaml();
  for (const document of parseTree(text, { uniqueKeys: false }).documents) {
    const entries = document.kind === "map" ? document.entries : [];
    const items = entries.find(({ key }) => key === "items")?.value;
    if (items?.kind === "list") return items.items.map(({ line }) => line);
  }
  return [];
}
