import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import type { Clock } from "../../platform/mod.ts";
import {
  createClientFrameCheck,
  createHttp2FrameReader,
  createQuota,
  FRAME,
  PREFACE_BYTES,
  wantsAnswer,
  watchLiveness,
} from "../transport/mod.ts";
import type { ClosureReason, Closures } from "./closures.ts";
import type { Limits } from "./limits.ts";

/** HTTP/2's error codes, RFC 9113 section 7. */
const NO_ERROR = 0;
const PROTOCOL_ERROR = 1;
const ENHANCE_YOUR_CALM = 11;

/** One connection and what guards it. */
export interface GuardOptions {
  readonly session: ServerHttp2Session;
  /** The socket that the session reads. */
  readonly socket: Socket;
  readonly limits: Limits;
  readonly clock: Clock;
  readonly closures: Closures;
  /** Called when the connection has its first stream, and when it has none again. */
  readonly onIdle: (isIdle: boolean) => void;
}

/**
 * Closes a connection that does not begin to speak HTTP/2, has no stream for too long, opens or resets streams or sends
 * frames faster than a watcher ever would, or whose other side has gone without a word.
 */
export function guardConnection({ session, socket, limits, clock, closures, onIdle }: GuardOptions): void {
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
    closures.count(reason, address);
    session.destroy(new Error(`closed by the server: ${reason}`), code);
    // The session waits until its last frame is written, which a client that reads nothing never lets happen.
    cancelLinger = clock.schedule(limits.lingerMs, () => socket.destroy());
  };

  // In front of the session's own listener, which ignores what comes once the session is destroyed: node:http2 makes
  // objects for every stream in a packet, some 10 kB each, before it tells of the first one, and broken frames have made
  // it end the process: with an error that nobody can catch, an assertion, or a segmentation fault (Deno 2.9).
  socket.prependListener(
    "data",
    createHttp2FrameReader(PREFACE_BYTES, (frame) => {
      const { type } = frame;
      if (check.problemOf(frame) !== undefined) close("broken frames", PROTOCOL_ERROR);
      // A client that says that it leaves gets no more. nghttp2 aborts the process over frames that follow a GOAWAY.
      else if (type === FRAME.goaway) close("the client left", NO_ERROR);
      else if (!frames.take()) close("too many frames", ENHANCE_YOUR_CALM);
      else if (type === FRAME.headers && !opened.take()) close("streams opened too fast", ENHANCE_YOUR_CALM);
      else if (wantsAnswer(type) && !controlFrames.take()) {
        close("PING or SETTINGS flood", ENHANCE_YOUR_CALM);
      }
    }),
  );

  const cancelHandshake = clock.schedule(limits.handshakeMs, () => close("no HTTP/2 settings", NO_ERROR));
  const startIdle = () => clock.schedule(limits.idleMs, () => close("no call", NO_ERROR));
  let cancelIdle = startIdle();

  const liveness = watchLiveness({
    clock,
    limits,
    ask() {
      // A session that broke off is destroyed before its socket, which may have much to write still.
      if (session.destroyed) return;
      check.pinged();
      session.ping((error) => error ?? liveness.heard());
    },
    onSilent: () => {
      close("no answer to PING", NO_ERROR);
      // It has taken long enough.
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
      if (stream.rstCode !== NO_ERROR && !resets.take()) close("streams reset too fast", ENHANCE_YOUR_CALM);
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
