/** Finds the imports of the project's modules in their text. */

/** Source text by path relative to the project root. */
export type Tree = ReadonlyMap<string, string>;

const ROOT = new URL("../", import.meta.url);

/** Reads the TypeScript files at or below these paths, relative to the project root. */
export function readTree(paths: readonly string[]): Tree {
  const tree = new Map<string, string>();
  const read = (path: string) => {
    const url = new URL(path, ROOT);
    if (Deno.statSync(url).isFile) {
      if (path.endsWith(".ts")) tree.set(path, Deno.readTextFileSync(url));
      return;
    }
    for (const { name } of Deno.readDirSync(url)) read(`${path}/${name}`);
  };
  for (const path of paths) read(path);
  return tree;
}

/** Returns the imports of a module, dynamic ones included: project modules as paths from the root, packages as specifiers. */
export function importsOf(path: string, text: string): string[] {
  const specifiers = [
    ...text.matchAll(/^(?:import|export)\b[^;"']*?\bfrom "([^"]+)"/gm),
    ...text.matchAll(/^import "([^"]+)"/gm),
    ...text.matchAll(/\bimport\(\s*"([^"]+)",?\s*\)/g),
  ].map(([, specifier]) => specifier!);
  return specifiers.map((specifier) =>
    specifier.startsWith(".") ? new URL(specifier, `file:///${path}`).pathname.slice(1) : specifier
  );
}

/** Whether an import is a module of the project rather than a package. */
export function isOfProject(imported: string): boolean {
  return imported.endsWith(".ts");
}
