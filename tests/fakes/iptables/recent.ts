/** The lists of addresses that `-m recent` keeps: when each was last seen. */
export interface RecentLists {
  stamp(list: string, address: string): void;
  /** Whether the address is on the list, and was seen within so many seconds if that is asked. */
  knows(list: string, address: string, withinSeconds: number | undefined): boolean;
  /** Takes it off the list; false where it was not on it. */
  remove(list: string, address: string): boolean;
}

/** Lists that last, and may be tried out. */
export interface KeptRecentLists extends RecentLists {
  /** The lists as they are, where changes go no further. */
  trial(): RecentLists;
  /** Forgets the lists for which this says so: the kernel keeps a list only as long as a rule uses it. */
  forget(isGone: (list: string) => boolean): void;
  readonly isEmpty: boolean;
}

/** Empty lists. @param nowMs the time */
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
