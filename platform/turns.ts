/** Long work in short turns, so that it does not hold up the event loop. */
import { type Clock, sleep } from "./clock.ts";

/** How long one turn may work before others get theirs. */
const TURN_MS = 20;

/** Starts a turn; awaiting what it returns lets others have theirs when this one has lasted long enough. */
export function startTurn(clock: Clock): () => Promise<void> {
  let startMs = clock.monotonic();
  return async () => {
    if (clock.monotonic() - startMs < TURN_MS) return;
    await sleep(clock, 0);
    startMs = clock.monotonic();
  };
}
