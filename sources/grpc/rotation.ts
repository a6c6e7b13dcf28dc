/** The choice among several servers: the current one as long as it works, then the next one in the list. */
export interface Rotation {
  /** The index of the server to watch. */
  current(): number;
  /**
   * The current server failed, so the next one is current, after the last one the first. Returns whether every server has failed
   * since the last one that worked; `worked` says whether this one did, for a while.
   */
  failed(worked: boolean): boolean;
}

/** A choice among `count` servers that starts with the first. */
export function createRotation(count: number): Rotation {
  let index = 0;
  let failures = 0;
  return {
    current: () => index,
    failed(worked) {
      index = (index + 1) % count;
      failures = worked ? 1 : failures + 1;
      if (failures < count) return false;
      failures = 0;
      return true;
    },
  };
}
