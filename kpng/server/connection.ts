import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import type { Clock } from "../../platform/mod.ts";
import {
  createClientFrameCheck,
  createHttp2FrameReader,
  createQuota,
  ERROR_CODE,
  FRAME,
  needsAnswer,
  PREFACE_BYTES,
  watchLiveness,
} from "../transport/mod.ts";
import type { ClosedConnections, ClosureReason } from "./closed_connections.ts";
import type { Limits } from "./limits.ts";
import { windowMoved } from "./window.ts";

/** Options of `guardConnection`. */
export interface GuardOptions {
  readonly session: ServerHttp2Session;
  /** The socket that the session reads. */
  readonly socket: Socket;
  readonly limits: Limits;
  readonly clock: Clock;
  readonly closed: ClosedConnections;
  /** Called when the connection has its first stream, and when it has none again. */
  readonly onIdle: (isIdle: boolean) => void;
}

/**
 * Closes a connection that does not start HTTP/2, has no stream for too long, opens or resets streams or sends frames faster than
 * any watcher would, or whose peer is dead.
 */
export function guardConnection({ session, socket, limits, clock, closed, onIdle }: GuardOptions): void {
  const quota = (count: number) => createQuota(count, limits.windowMs, clock);
  const opened = quota(limits.streamsPerWindow);
  const resets = quota(limits.resetsPerWindow);
  const controlFrames = quota(limits.controlFramesPerWindow);
  const frames = quota(limits.framesPerWindow);
  const check = createClientFrameCheck();
  const address = socket.remoteAddress;
  let open = 0;
  let isClosing = false;
  let cancelLinger = () => {};

  const close = (reason: ClosureReason, code: number) => {
    if (isClosing) return;
    isClosing = true;
    closed.count(reason, address);
    session.destroy(new Error(`closed by the server: ${reason}`), code);
    // The session waits for its last frame to be written, which may never happen.
    cancelLinger = clock.schedule(limits.lingerMs, () => socket.destroy());
  };

  // Before the session's own listener, which ignores data after the session is destroyed: node:http2 creates objects of about
  // 10 kB for every stream in a packet before it emits the first one, and broken frames have crashed it with an uncatchable
  // error, an assertion or a segmentation fault (Deno 2.9).
  socket.prependListener(
    "data",
    createHttp2FrameReader(PREFACE_BYTES, (frame) => {
      const { type } = frame;
      if (check.problemOf(frame) !== undefined) close("broken frames", ERROR_CODE.protocolError);
      // nghttp2 aborts the process on frames after a GOAWAY.
      else if (type === FRAME.goaway) close("the client left", ERROR_CODE.noError);
      else if (!frames.take()) close("too many frames", ERROR_CODE.enhanceYourCalm);
      else if (type === FRAME.headers && !opened.take()) close("streams opened too fast", ERROR_CODE.enhanceYourCalm);
      else if (needsAnswer(type) && !controlFrames.take()) {
        close("PING or SETTINGS flood", ERROR_CODE.enhanceYourCalm);
      } else if (type === FRAME.windowUpdate) windowMoved(session);
    }),
  );

  const cancelHandshake = clock.schedule(limits.handshakeMs, () => close("no HTTP/2 settings", ERROR_CODE.noError));
  const startIdle = () => clock.schedule(limits.idleMs, () => close("no call", ERROR_CODE.noError));
  let cancelIdle = startIdle();

  const liveness = watchLiveness({
    clock,
    limits,
    probe() {
      // A broken session is destroyed before its socket, which may still have data to write.
      if (session.destroyed) return;
      check.pinged();
      session.ping((error) => error ?? liveness.received());
    },
    onSilent: () => {
      close("no answer to PING", ERROR_CODE.noError);
      // The peer is dead: do not linger.
      socket.destroy();
    },
  });

  session.on("error", () => {});
  session.once("remoteSettings", cancelHandshake);
  session.on("stream", (stream) => {
    if (++open === 1) {
      cancelIdle();
      onIdle(false);
    }
    stream.on("close", () => {
      if (stream.rstCode !== ERROR_CODE.noError && !resets.take()) {
        close("streams reset too fast", ERROR_CODE.enhanceYourCalm);
      }
      if (--open > 0 || session.destroyed) return;
      cancelIdle = startIdle();
      onIdle(true);
    });
  });
  session.on("close", () => {
    cancelHandshake();
    cancelIdle();
    cancelLinger();
    liveness.stop();
  });
}
