/** Records when planned changes took effect. */
export interface EffectHistory {
  /** Everything planned up to `round` was sent as part of `revision`. */
  sent(revision: number, round: number): void;
  /** Everything sent up to `revision` is in effect. */
  inEffect(revision: number, atMs: number): void;
  /** The effect of what was planned in `round`. */
  since(round: number): Effect;
}

/** Whether something is in effect, by which revision and since when; or that the kernel refuses it. */
export interface Effect {
  readonly state: "waiting" | "in effect" | "refused";
  /** The revision that carries it; undefined if it was not sent yet. */
  readonly revision: number | undefined;
  /** The end of that sync, or of the first that was refused, in milliseconds since 1970; undefined while waiting. */
  readonly syncedAtMs: number | undefined;
  /** The tool that refused it and its error message. */
  readonly refusal?: string;
  /** Whether an earlier sync, no longer recorded, may have brought it into effect. */
  readonly orEarlier: boolean;
}

interface Arrival {
  readonly revision: number;
  readonly round: number;
  readonly atMs: number;
}

/**
 * A history of at most `limit` syncs. The first is kept, since most of a cluster has been in effect since then; of the
 * others, the oldest are dropped.
 */
export function createEffectHistory(limit = 128): EffectHistory {
  let inFlight: Omit<Arrival, "atMs">[] = [];
  const arrivals: Arrival[] = [];
  let hasDropped = false;
  return {
    sent(revision, round) {
      inFlight.push({ revision, round });
    },
    inEffect(revision, atMs) {
      for (const one of inFlight) if (one.revision <= revision) arrivals.push({ ...one, atMs });
      inFlight = inFlight.filter((one) => one.revision > revision);
      if (arrivals.length <= limit) return;
      arrivals.splice(1, arrivals.length - limit);
      hasDropped = true;
    },
    since(round) {
      const at = arrivals.findIndex((arrival) => arrival.round >= round);
      const arrival = arrivals[at];
      if (arrival) {
        const { revision, atMs } = arrival;
        return { state: "in effect", revision, syncedAtMs: atMs, orEarlier: hasDropped && at === 1 };
      }
      const revision = inFlight.find((one) => one.round >= round)?.revision;
      return { state: "waiting", revision, syncedAtMs: undefined, orEarlier: false };
    },
  };
}
