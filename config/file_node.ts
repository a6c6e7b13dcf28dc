/** A value in a configuration file, with the line at which it begins, from 1. */
export type FileNode =
  | { readonly kind: "section"; readonly line: number; readonly entries: readonly FileEntry[] }
  | { readonly kind: "list"; readonly line: number; readonly items: readonly FileNode[] }
  /** `value` is undefined where nothing is written. */
  | { readonly kind: "scalar"; readonly line: number; readonly value: unknown };

/** A field of a section; a field that is set twice is two entries. */
export interface FileEntry {
  readonly key: string;
  readonly line: number;
  readonly value: FileNode;
}

/** The text of a configuration file as values. */
export interface ParsedFile {
  /** The first document; undefined where the file has none, or is not in its format. */
  readonly root: FileNode | undefined;
  /** The line at which a second document begins that is not empty. */
  readonly secondDocument?: number;
  readonly errors: readonly { readonly line: number; readonly message: string }[];
}

/** Reads the text of a file in one format. */
export type ParseFile = (text: string) => ParsedFile;
