/** Since when what was planned is in effect. */
export interface EffectHistory {
  /** Everything planned up to `round` is on its way as part of `revision`. */
  sent(revision: number, round: number): void;
  /** Everything sent up to `revision` is in effect. */
  inEffect(revision: number, atMs: number): void;
  /** What became of something that was planned in `round`. */
  since(round: number): Effect;
}

/** Whether something is in effect, by which revision and since when. */
export interface Effect {
  readonly state: "waiting" | "in effect";
  /** The revision that carries it; undefined where that was not sent yet. */
  readonly revision: number | undefined;
  /** When that sync ended, in milliseconds since 1970; undefined while it waits. */
  readonly syncedAtMs: number | undefined;
  /** Whether it may have been an earlier sync, of which nothing is kept any more. */
  readonly orEarlier: boolean;
}

interface Arrival {
  readonly revision: number;
  readonly round: number;
  readonly atMs: number;
}

/**
 * A history of at most `limit` syncs. The first one is never forgotten, since most of a cluster has been in effect since
 * then; of the others the oldest go.
 */
export function createEffectHistory(limit = 128): EffectHistory {
  let travelling: Omit<Arrival, "atMs">[] = [];
  const arrivals: Arrival[] = [];
  let isForgetful = false;
  return {
    sent(revision, round) {
      travelling.push({ revision, round });
    },
    inEffect(revision, atMs) {
      for (const one of travelling) if (one.revision <= revision) arrivals.push({ ...one, atMs });
      travelling = travelling.filter((one) => one.revision > revision);
      if (arrivals.length <= limit) return;
      arrivals.splice(1, arrivals.length - limit);
      isForgetful = true;
    },
    since(round) {
      const at = arrivals.findIndex((arrival) => arrival.round >= round);
      const arrival = arrivals[at];
      if (arrival) {
        const { revision, atMs } = arrival;
        return { state: "in effect", revision, syncedAtMs: atMs, orEarlier: isForgetful && at === 1 };
      }
      const revision = travelling.find((one) => one.round >= round)?.revision;
      return { state: "waiting", revision, syncedAtMs: undefined, orEarlier: false };
    },
  };
}
