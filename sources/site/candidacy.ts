/**
 * Decides which node of a site asks the API server first when there is no leader, so that the others need not. It decides nothing
 * else: the Lease decides who leads, and a node that hears no other node asks the API server itself.
 */
import type { Clock } from "../../platform/mod.ts";
import type { Lan } from "./lan.ts";
import type { Leader, LeaseRecord } from "./lease.ts";

/** A version of the Lease that another node has seen, `ageMs` milliseconds ago. */
export interface SeenLease {
  readonly record: LeaseRecord;
  readonly ageMs: number;
}

/** A node among those that look for a leader. */
export interface Candidacy {
  /** Asks once. */
  ask(isNew: boolean, signal: AbortSignal): Promise<SeenLease | undefined>;
  /**
   * Resolves with the Lease that another node knows, or with undefined when it is this node's turn to ask the API server; at the
   * latest after `DEFER_MS`, or when `isOver` holds. Its turn lasts until `rest`.
   */
  find(isNew: boolean, isOver: () => boolean, signal: AbortSignal): Promise<SeenLease | undefined>;
  /** Ends this node's turn. */
  rest(): void;
  /** Whether it is this node's turn to ask the API server. */
  hasTurn(): boolean;
  /** The last leader that has answered without a Lease. */
  lastLeader(): Leader | undefined;
}

/**
 * After so many questions without an answer it is this node's turn: after more if there are other nodes, and after even more if one
 * of them was heard to ask the API server. Where a whole site starts, all may be too busy to answer each question.
 */
const ROUNDS = { alone: 3, amongOthers: 6, afterCandidate: 16 };
/** The longest time for which a node waits for one that asks the API server: it may be stuck. */
const DEFER_MS = 20_000;
/** The longest time for which it waits for nodes that only ask on the LAN, which anybody can pretend to. */
const PRECEDED_MS = 5_000;

/** For how long a node counts as one of the others. */
const HEARD_MS = 5_000;

/** Options of `createCandidacy`. */
export interface CandidacyOptions {
  readonly lan: Pick<Lan, "ask" | "isHeard">;
  /** `lastLeader` has answered. */
  readonly onLastLeader: () => void;
  readonly clock: Clock;
  readonly random: () => number;
}

/** A node that looks for nothing yet. */
export function createCandidacy({ lan, onLastLeader, clock, random }: CandidacyOptions): Candidacy {
  const rank = random();
  let hasTurn = false;
  let lastLeader: Leader | undefined;

  const ask = async (isNew: boolean, signal: AbortSignal) => {
    const heard = await lan.ask({ rank, isNew }, signal);
    if (heard.lastLeader !== undefined) {
      lastLeader = heard.lastLeader;
      onLastLeader();
    }
    return heard;
  };

  return {
    ask: async (isNew, signal) => (await ask(isNew, signal)).lease,
    async find(isNew, isOver, signal) {
      if (hasTurn) return undefined;
      const startMs = clock.monotonic();
      // Up to twice as long, so that not all end at once.
      const factor = 1 + random();
      const isDue = (ms: number) => clock.monotonic() - startMs >= ms * factor;
      let hadCandidate = false;
      const rounds = () => ROUNDS[hadCandidate ? "afterCandidate" : lan.isHeard(HEARD_MS) ? "amongOthers" : "alone"];
      for (let silent = 0; silent < rounds() && !isDue(DEFER_MS);) {
        const { lease, isCandidate, isPreceded } = await ask(isNew, signal);
        if (lease !== undefined || isOver() || signal.aborted) return lease;
        hadCandidate ||= isCandidate;
        silent = isCandidate || isPreceded && !isDue(PRECEDED_MS) ? 0 : silent + 1;
      }
      hasTurn = true;
    },
    rest() {
      hasTurn = false;
    },
    hasTurn: () => hasTurn,
    lastLeader: () => lastLeader,
  };
}
