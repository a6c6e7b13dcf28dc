import type { Clock } from "../../platform/mod.ts";

/** When to probe a silent peer, and when to close its connection. */
export interface LivenessLimits {
  /** The silence after which it is probed. */
  readonly probeAfterMs: number;
  readonly answerMs: number;
}

/** Detects dead peers within 80 s, and sends 7,500 silent nodes at most 250 probes a second. */
export const LIVENESS: LivenessLimits = { probeAfterMs: 30_000, answerMs: 20_000 };

/** The lateness of a timer from which this process counts as stalled; a busy one is late by less. */
const LATE_MS = 1_000;

/** The liveness check of a connection. */
interface Liveness {
  received(): void;
  stop(): void;
}

/**
 * Detects a dead peer whose connection was never closed, after a power or network failure. `probe` must make it answer;
 * `onSilent` is called once if it does not. A timer that fires late, after a stall of this process, fires before data that
 * has arrived is read, so it proves nothing: the wait is repeated, once.
 */
export function watchLiveness(
  { clock, limits: { probeAfterMs, answerMs }, probe, onSilent }: {
    readonly clock: Clock;
    readonly limits: LivenessLimits;
    readonly probe: () => void;
    readonly onSilent: () => void;
  },
): Liveness {
  let isHeard = false;
  let cancel = () => {};

  const wait = () => {
    isHeard = false;
    cancel = clock.schedule(probeAfterMs, () => isHeard ? wait() : sendProbe());
  };
  const awaitAnswer = (onLate: () => void) => {
    const lateAtMs = clock.monotonic() + answerMs + LATE_MS;
    cancel = clock.schedule(answerMs, () => {
      if (isHeard) wait();
      else if (clock.monotonic() > lateAtMs) onLate();
      else onSilent();
    });
  };
  const sendProbe = () => {
    awaitAnswer(() => awaitAnswer(onSilent));
    probe();
  };

  wait();
  return {
    received() {
      isHeard = true;
    },
    stop: () => cancel(),
  };
}

/** The error message for a peer that does not answer. */
export function silenceText({ probeAfterMs, answerMs }: LivenessLimits): string {
  return `the peer has not answered for ${(probeAfterMs + answerMs) / 1000} s`;
}

/**
 * A quota of `count` events in each window of `windowMs`; a window starts with the first event after the last one. Each call of
 * the result counts an event, and returns false if it exceeds the quota.
 */
export function createQuota(count: number, windowMs: number, clock: Clock): () => boolean {
  let startMs = clock.monotonic();
  let taken = 0;
  return () => {
    const nowMs = clock.monotonic();
    if (nowMs - startMs > windowMs) {
      startMs = nowMs;
      taken = 0;
    }
    return ++taken <= count;
  };
}
