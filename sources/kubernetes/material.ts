/** A part of the credentials: inline, or in a file that may be rotated. */
export type Material = { readonly text: string } | { readonly file: string };

/** A reader of a material's text. */
export interface MaterialReader {
  /** The current text; the same string while it is unchanged. Throws an Error that names the file. */
  read(): string;
  /** Makes the next `read` read the file even if it looks unchanged. */
  forget(): void;
}

/**
 * A reader for `material`. A file is read again when its modification time changes; while it is missing or empty (during its
 * replacement) the last text is used.
 */
export function createMaterialReader(material: Material): MaterialReader {
  if ("text" in material) return { read: () => material.text, forget: () => {} };
  const { file } = material;
  let known: { readonly text: string; readonly modified: number } | undefined;
  return {
    read() {
      try {
        const modified = Deno.statSync(file).mtime?.getTime() ?? 0;
        if (known?.modified === modified) return known.text;
        const text = Deno.readTextFileSync(file);
        if (text.trim() === "") throw new Error(`${file} is empty`);
        known = { text: text === known?.text ? known.text : text, modified };
      } catch (error) {
        if (known === undefined) throw error;
      }
      return known.text;
    },
    forget() {
      if (known !== undefined) known = { text: known.text, modified: NaN };
    },
  };
}
