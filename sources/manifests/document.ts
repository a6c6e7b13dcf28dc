import type { LineCounter, Node } from "yaml";
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
 * DocumentError for the first error. Loads package `yaml` only if the document is not JSON.
 */
export async function parseDocument(text: string): Promise<readonly DocumentValue[]> {
  const [mark] = /^(?:---(?=\s))?\s*/.exec(text)!;
  const json = parseJsonObject(text.slice(mark.length));
  if (json !== undefined) return [{ value: json, line: 1 + countLines(mark) }];
  const { documents, lines } = await parseYaml(text);
  const values: DocumentValue[] = [];
  for (const document of documents) {
    const [error] = document.errors;
    if (error !== undefined) throw new DocumentError(error.message, lines.linePos(error.pos[0]).line);
    const line = lineOf(document.contents, lines);
    try {
      const value: unknown = document.toJS();
      if (value !== null && value !== undefined) values.push({ value, line });
    } catch (error) {
      throw new DocumentError(error instanceof Error ? error.message : String(error), line);
    }
  }
  return values;
}

/**
 * The line, from 1 at the start of a document's text, of an item in its list of objects. Parses the text again: positions are
 * rarely needed, and keeping them would cost memory for every object.
 */
export async function lineOfItem(text: string, item: number): Promise<number> {
  const { documents, lines, isMap, isSeq } = await parseYaml(text);
  for (const { contents } of documents) {
    const items = isMap(contents) ? contents.get("items", true) : undefined;
    if (isSeq(items)) return lineOf(items.items[item] as Node | undefined, lines);
  }
  return 1;
}

async function parseYaml(text: string) {
  const { isMap, isSeq, LineCounter, parseAllDocuments } = await loadYaml();
  const lines = new LineCounter();
  const documents = parseAllDocuments(text, {
    lineCounter: lines,
    prettyErrors: false,
    logLevel: "silent",
    merge: true,
    stringKeys: true,
  });
  return { documents, lines, isMap, isSeq };
}

function lineOf(node: Node | null | undefined, lines: LineCounter): number {
  const start = node?.range?.[0];
  return start === undefined ? 1 : Math.max(1, lines.linePos(start).line);
}
