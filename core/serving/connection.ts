import type { ServerHttp2Session } from "node:http2";
import type { Clock } from "../../platform/clock.ts";
import { silenceText, watchLiveness } from "../wire/liveness.ts";
import type { Limits } from "./limits.ts";

/**
 * Ends a connection that has no stream for too long, opens streams faster than a watcher ever would, or whose other side
 * has gone without a word.
 */
export function guardConnection(session: ServerHttp2Session, limits: Limits, clock: Clock): void {
  let open = 0;
  let opened = 0;
  let windowStartMs = clock.monotonic();
  let cancelIdle = () => {};

  const startIdle = () => {
    cancelIdle = clock.schedule(limits.idleMs, () => session.destroy());
  };

  const liveness = watchLiveness({
    clock,
    limits,
    ask: () => void session.ping((error) => error ?? liveness.heard()),
    onSilent: () => session.destroy(new Error(silenceText(limits))),
  });

  session.on("error", () => {});
  session.on("stream", (stream) => {
    cancelIdle();
    open++;
    if (clock.monotonic() - windowStartMs > limits.windowMs) {
      windowStartMs = clock.monotonic();
      opened = 0;
    }
    if (++opened > limits.streamsPerWindow) session.destroy();
    stream.on("close", () => {
      if (--open === 0 && !session.destroyed) startIdle();
    });
  });
  session.on("close", () => {
    cancelIdle();
    liveness.stop();
  });
  startIdle();
}
