/** The address lists of `-m recent`, with the time when each address was last seen. */
export interface RecentLists {
  stamp(list: string, address: string): void;
  /** Whether the address is on the list, and was seen within the given seconds if any. */
  knows(list: string, address: string, withinSeconds: number | undefined): boolean;
  /** Removes the address from the list; false if it was not on it. */
  remove(list: string, address: string): boolean;
}

/** The kernel's lists. */
export interface KeptRecentLists extends RecentLists {
  /** A copy of the lists, whose changes do not affect the original. */
  trial(): RecentLists;
  /** Deletes the lists for which `isGone` returns true. */
  forget(isGone: (list: string) => boolean): void;
  readonly isEmpty: boolean;
}

/** Creates empty lists. @param nowMs the current time */
export function createRecentLists(nowMs: () => number): KeptRecentLists {
  return createLists(new Map(), nowMs);
}

function createLists(lists: Map<string, Map<string, number>>, nowMs: () => number): KeptRecentLists {
  return {
    stamp(list, address) {
      let seen = lists.get(list);
      if (!seen) lists.set(list, seen = new Map());
      seen.set(address, nowMs());
    },
    knows(list, address, withinSeconds) {
      const at = lists.get(list)?.get(address);
      return at !== undefined && (withinSeconds === undefined || nowMs() - at <= withinSeconds * 1000);
    },
    remove: (list, address) => lists.get(list)?.delete(address) ?? false,
    trial: () => createLists(new Map(Array.from(lists, ([list, seen]) => [list, new Map(seen)])), nowMs),
    forget(isGone) {
      for (const list of [...lists.keys()]) if (isGone(list)) lists.delete(list);
    },
    get isEmpty() {
      return lists.size === 0;
    },
  };
}
