/** Gives equal values one place in memory: 250,000 endpoints name a few nodes and fewer zones. */
export interface Interner<T> {
  /** The value known by that key, or the one that `make` makes, which is known from then on. */
  get(key: string, make: () => T): T;
}

/**
 * An interner that forgets everything at `most` entries. What it has handed out stays valid; only sharing starts anew, so
 * that names of things long gone do not pile up.
 */
export function createInterner<T>(most: number): Interner<T> {
  let known = new Map<string, T>();
  return {
    get(key, make) {
      const found = known.get(key);
      if (found !== undefined) return found;
      if (known.size >= most) known = new Map();
      const made = make();
      known.set(key, made);
      return made;
    },
  };
}

const strings = createInterner<string>(20_000);
const stringLists = createInterner<readonly string[]>(2_000);

/** The one copy of a string. */
export function internString(text: string): string {
  return text === "" ? "" : strings.get(text, () => text);
}

/** The one copy of a list of strings; it must not be changed. */
export function internStrings(texts: readonly string[]): readonly string[] {
  return stringLists.get(JSON.stringify(texts), () => texts.map(internString));
}
