/** Shares equal values in memory: 250,000 endpoints refer to a few nodes and fewer zones. */
interface Interner<T> {
  /** The value stored under the key; calls `create` and stores the result if there is none. */
  get(key: string, create: () => T): T;
}

/** The memory overhead of an entry in addition to its key, in characters. */
const ENTRY = 32;

/** An interner that forgets everything when its keys reach `limit` characters, at `ENTRY` and their length each. */
export function createInterner<T>(limit: number): Interner<T> {
  let known = new Map<string, T>(), size = 0;
  return {
    get(key, create) {
      const found = known.get(key);
      if (found !== undefined) return found;
      const created = create();
      // A large key is rarely repeated, and would push out all others.
      if (key.length > limit / 100) return created;
      if (size + ENTRY + key.length > limit) {
        known = new Map();
        size = 0;
      }
      size += ENTRY + key.length;
      known.set(key, created);
      return created;
    },
  };
}

const strings = createInterner<string>(1_000_000);
const stringLists = createInterner<readonly string[]>(100_000);

/** The shared copy of a string. */
export function internString(text: string): string {
  return text === "" ? "" : strings.get(text, () => text);
}

/** The shared copy of a list of strings; it must not be changed. */
export function internStrings(texts: readonly string[]): readonly string[] {
  return stringLists.get(JSON.stringify(texts), () => texts.map(internString));
}
