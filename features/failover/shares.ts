/** Places that namespaces share. */
export interface Shares {
  /** Takes places for a namespace; false, without taking any, if it would then have more than are left for all others. */
  take(namespace: string, count: number): boolean;
  /** Gives places back. */
  release(namespace: string, count: number): void;
}

/**
 * Shares `most` places. A namespace never holds more than are left for the others: the first one gets half, the second one a
 * quarter, the tenth still a thousandth.
 */
export function createShares(most: number): Shares {
  const held = new Map<string, number>();
  let free = most;
  const heldBy = (namespace: string) => held.get(namespace) ?? 0;
  return {
    take(namespace, count) {
      const own = heldBy(namespace) + count;
      if (own > free - count) return false;
      held.set(namespace, own);
      free -= count;
      return true;
    },
    release(namespace, count) {
      const own = heldBy(namespace) - count;
      if (own > 0) held.set(namespace, own);
      else held.delete(namespace);
      free += count;
    },
  };
}
