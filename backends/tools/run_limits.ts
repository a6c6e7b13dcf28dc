import type { ToolCall } from "./runner.ts";

/** The time limits of a runner's runs, learned from earlier ones: a tool that hangs must not delay changes for long. */
interface RunLimits {
  /** The time after which a run is killed, in milliseconds, if it has taken this many pieces of 64 kB of input. */
  limitMs(call: LimitedCall, pieces: number): number;
  /** A run ended by itself. One that failed says nothing of the time that a success takes, only that the tool does not hang. */
  ended(call: LimitedCall, tookMs: number, succeeded: boolean): void;
  /** A run was killed at its limit. */
  expired(call: LimitedCall): void;
}

type LimitedCall = Pick<ToolCall, "tool" | "args" | "timeoutMs">;

/** The limit of a run whose call has none: a first run may read or write the state of a large cluster. */
const LONGEST_MS = 60_000;
/** The limit once such a run has ended quickly. Tools wait for the xtables lock for 5 s. */
const SHORT_MS = 8_000;
/** A run may take this many times as long as the slowest of its kind. */
const SLOWER = 4;
/** After this many expired runs in a row, the limit doubles: the tool may be slow, not hang. */
const RUNS_BEFORE_DOUBLING = 4;

/** The time that each piece of input adds to a limit. */
const PIECE_MS = 1_000;

/** Limits of a runner that has run nothing. */
export function createRunLimits(): RunLimits {
  const kinds = new Map<string, { slowestMs: number; expired: number }>();
  return {
    limitMs(call, pieces) {
      const { timeoutMs = LONGEST_MS } = call, kind = kinds.get(kindOf(call));
      if (kind === undefined) return timeoutMs;
      const shortMs = SHORT_MS * 2 ** Math.floor(kind.expired / RUNS_BEFORE_DOUBLING);
      return Math.min(timeoutMs, Math.max(shortMs, SLOWER * kind.slowestMs) + pieces * PIECE_MS);
    },
    ended(call, tookMs, succeeded) {
      const kind = kinds.get(kindOf(call));
      if (succeeded) kinds.set(kindOf(call), { slowestMs: Math.max(kind?.slowestMs ?? 0, tookMs), expired: 0 });
      else if (kind) kind.expired = 0;
    },
    expired(call) {
      const kind = kinds.get(kindOf(call));
      if (kind) kind.expired++;
    },
  };
}

/** Runs of a kind take similar times: `nft list set`, `iptables-restore --noflush`. */
function kindOf({ tool, args }: LimitedCall): string {
  return [tool, ...args.slice(0, 2)].join(" ");
}
