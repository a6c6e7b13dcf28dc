import type { Clock } from "../../platform/mod.ts";

/** When to probe a silent peer, and when to give it up. */
export interface LivenessLimits {
  /** The silence after which it is probed. */
  readonly probeAfterMs: number;
  /** How long it may take to answer. */
  readonly answerMs: number;
}

/** Detects dead peers within 80 s, and sends 7,500 silent nodes at most 250 probes a second. */
export const LIVENESS: LivenessLimits = { probeAfterMs: 30_000, answerMs: 20_000 };

/** The liveness check of a connection. */
export interface Liveness {
  /** Data was received from the peer. */
  received(): void;
  stop(): void;
}

/**
 * Detects a dead peer whose connection was never closed, after a power or network failure. `probe` must make it answer;
 * `onSilent` is called once if it does not.
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
  const sendProbe = () => {
    cancel = clock.schedule(answerMs, () => isHeard ? wait() : onSilent());
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
