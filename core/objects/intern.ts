/** Shares equal values in memory: 250,000 endpoints refer to a few nodes and fewer zones. */
export interface Interner<T> {
  /** The value stored under the key; calls `create` and stores the result if there is none. */
  get(key: string, create: () => T): T;
}

/**
 * An interner that forgets everything at `limit` entries, so that names of deleted objects do not pile up. Values handed out
 * before stay valid.
 */
export function createInterner<T>(limit: number): Interner<T> {
  let known = new Map<string, T>();
  return {
    get(key, create) {
      const found = known.get(key);
      if (found !== undefined) return found;
      if (known.size >= limit) known = new Map();
      const created = create();
      known.set(key, created);
      return created;
    },
  };
}

const strings = createInterner<string>(20_000);
const stringLists = createInterner<readonly string[]>(2_000);

/** The shared copy of a string. */
export function internString(text: string): string {
  return text === "" ? "" : strings.get(text, () => text);
}

/** The shared copy of a list of strings; it must not be changed. */
export function internStrings(texts: readonly string[]): readonly string[] {
  return stringLists.get(JSON.stringify(texts), () => texts.map(internString));
}
