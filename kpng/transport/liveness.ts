import type { Clock } from "../../platform/mod.ts";

/** How often the other side of a silent connection is asked whether it is there. */
export interface LivenessLimits {
  /** After how long a silence it is asked. */
  readonly askMs: number;
  /** How long it may take to say anything. */
  readonly answerMs: number;
}

/** Who is gone is noticed within 80 s, and 7,500 silent nodes are asked 150 times a second at most. */
export const LIVENESS: LivenessLimits = { askMs: 30_000, answerMs: 20_000 };

/** What watches a connection. */
export interface Liveness {
  /** Something came from the other side. */
  heard(): void;
  stop(): void;
}

/**
 * Notices that the other side of a connection is gone although nothing says so: a machine that lost its power or its
 * network closes nothing. `ask` makes it answer, `onSilent` is called once when it did not.
 */
export function watchLiveness(
  { clock, limits: { askMs, answerMs }, ask, onSilent }: {
    readonly clock: Clock;
    readonly limits: LivenessLimits;
    readonly ask: () => void;
    readonly onSilent: () => void;
  },
): Liveness {
  let heard = false;
  let cancel = () => {};

  const wait = () => {
    heard = false;
    cancel = clock.schedule(askMs, () => heard ? wait() : question());
  };
  const question = () => {
    cancel = clock.schedule(answerMs, () => heard ? wait() : onSilent());
    ask();
  };

  wait();
  return {
    heard() {
      heard = true;
    },
    stop: () => cancel(),
  };
}

/** What to say of a connection whose other side no longer answers. */
export function silenceText({ askMs, answerMs }: LivenessLimits): string {
  return `nothing was heard of the other side for ${(askMs + answerMs) / 1000} s, although it was asked`;
}
