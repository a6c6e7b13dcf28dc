/**
 * The source for gRPC servers: `sluice serve` or KPNG.
 *
 * In: messages of KPNG's protocol. Out: objects, to a `SourceSink`. May touch: the network.
 */
import type { ReportLink, Source, SourceSink } from "../../core/objects/mod.ts";
import { type Connection, openConnection, ServerLeavingError, watchEnd } from "../../kpng/client/mod.ts";
import { METHODS, PROBE_METHOD, WATCH_REQUEST } from "../../kpng/messages/mod.ts";
import { createReceiver } from "../../kpng/receiving/mod.ts";
import { DEFAULT_MESSAGE_BYTES, type TlsFiles, type WireAddress, wireAddressText } from "../../kpng/address/mod.ts";
import {
  createFrameReader,
  framesOf,
  LIVENESS,
  type LivenessLimits,
  silenceText,
  watchLiveness,
} from "../../kpng/transport/mod.ts";
import { type ClockAndLogger, createBackoff, errorText, type Logger, sleep, startReading } from "../../platform/mod.ts";

/** Options of `createGrpcSource`. */
export interface GrpcSourceOptions extends ClockAndLogger {
  /** The servers, at least one, in the order in which they are tried. */
  readonly addresses: readonly WireAddress[];
  readonly tls: TlsFiles | undefined;
  /** Whether to watch the state of the whole cluster or what this node may use. */
  readonly scope: keyof typeof METHODS;
  readonly nodeName: string;
  /** Whether to include all nodes and details, to pass them on. */
  readonly inFull: boolean;
  /** The longest accepted message; DEFAULT_MESSAGE_BYTES by default. */
  readonly maxMessageBytes?: number;
  /** Receives the state of the link to the server in use or tried last. */
  readonly onLink?: ReportLink;
  /** The waits after all servers have failed. */
  readonly backoff?: Waits;
  /** The time that a server has to send something before the next one is tried; longer each time that all have failed. */
  readonly patience?: Waits;
  /** LIVENESS by default. */
  readonly liveness?: LivenessLimits;
  /** A number from 0 up to 1; Math.random by default. */
  readonly random?: () => number;
}

interface Waits {
  readonly firstMs: number;
  readonly longestMs: number;
}

const STREAM = "watch";

const BACKOFF: Waits = { firstMs: 250, longestMs: 30_000 };

/** A server answers within milliseconds, unless it is down without refusing connections or has no state yet. */
const PATIENCE: Waits = { firstMs: 5_000, longestMs: 80_000 };

/** The time after which a watched server counts as working: servers that fail after each snapshot are backed off from. */
const WORKING_MS = 10_000;

/**
 * A source that watches one server as long as it works, then immediately the next one; after all have failed, it waits. The
 * last state stays in effect until another server has sent its whole state; only the differences are reported.
 */
export function createGrpcSource(options: GrpcSourceOptions): Source {
  const { addresses, nodeName, inFull, onLink = () => {}, clock, random } = options;
  const names = addresses.map(wireAddressText);
  let inUse: number | undefined;
  return {
    servers: () => names.map((address, index) => ({ address, inUse: index === inUse })),
    async run(sink, signal) {
      const receiver = createReceiver({ sink, nodeName, inFull });
      const backoff = createBackoff({ ...(options.backoff ?? BACKOFF), random });
      const patience = createBackoff({ ...(options.patience ?? PATIENCE), jitter: 0 });
      const rotation = createRotation(addresses.length);
      const outage = createOutageReport(options.logger, sink);
      let answerMs = patience.nextMs();
      while (!signal.aborted) {
        const index = rotation.current(), server = names[index]!;
        let sinceMs: number | undefined;
        const onRound = () => {
          sinceMs ??= clock.monotonic();
          inUse = index;
          outage.watched(server);
          onLink(STREAM, server, { type: "answered" });
          backoff.reset();
          patience.reset();
          answerMs = patience.nextMs();
        };
        const limitMs = addresses.length > 1 ? answerMs : undefined;
        const error: unknown = await watchServer(addresses[index]!, options, receiver, onRound, limitMs, signal)
          .catch((error) => error);
        inUse = undefined;
        if (signal.aborted) return;
        const worked = sinceMs !== undefined && clock.monotonic() - sinceMs >= WORKING_MS;
        const reason = errorText(error);
        // Not a failure: the server asks for a new connection, and the next attempt shows whether there is one.
        const isLeaving = error instanceof ServerLeavingError && sinceMs !== undefined;
        const isLast = rotation.failed(worked);
        const waitMs = isLast ? backoff.nextMs() : 0;
        onLink(STREAM, server, { type: "failed", error: reason, retryInMs: waitMs });
        outage.failed(server, reason, isLeaving, isLast ? waitMs : names[rotation.current()]!);
        if (!isLast) continue;
        await sleep(clock, waitMs, signal).catch(() => {});
        if (isLeaving) backoff.reset();
        else answerMs = patience.nextMs();
      }
    },
  };
}

/**
 * Watches one server until the call ends; always throws the reason. `onRound` is called after each round; a server that sends
 * nothing within `limitMs` is left.
 */
async function watchServer(
  address: WireAddress,
  { tls, scope, nodeName, inFull, maxMessageBytes, clock, liveness = LIVENESS }: GrpcSourceOptions,
  receiver: ReturnType<typeof createReceiver>,
  onRound: () => void,
  limitMs: number | undefined,
  signal: AbortSignal,
): Promise<never> {
  const request = WATCH_REQUEST.encode({
    nodeName: scope === "local" ? nodeName : undefined,
    extended: true,
    onlyNode: scope === "global" && !inFull ? nodeName : undefined,
  });
  const unanswered = new AbortController();
  const stopWaiting = limitMs === undefined
    ? () => {}
    : clock.schedule(limitMs, () => unanswered.abort(new Error(`no answer within ${limitMs / 1000} s`)));
  let isAnswered = false;
  const onMessage = (message: Uint8Array<ArrayBuffer>): boolean => {
    if (!isAnswered) receiver.restart();
    isAnswered = true;
    stopWaiting();
    const endsRound = receiver.receive(message);
    if (endsRound) onRound();
    return endsRound;
  };
  const ended = AbortSignal.any([signal, unanswered.signal]);
  const server = { address, tls, maxMessageBytes, clock, liveness };
  return await call({ ...server, method: METHODS[scope], request, onMessage, signal: ended }).finally(stopWaiting);
}

const SCOPE = "gRPC server";

/** Logs and reports which server is watched and why others are not. */
interface OutageReport {
  /** A server has sent its whole state, or a later round. */
  watched(server: string): void;
  /**
   * A server failed, or closes the connection in an orderly way (`isLeaving`). `next` is tried at once, or after all have failed,
   * the first one in so many milliseconds.
   */
  failed(server: string, reason: string, isLeaving: boolean, next: string | number): void;
}

/** A report without history. An outage is one line for each server and reason, however long it lasts. */
export function createOutageReport(logger: Logger, sink: Pick<SourceSink, "problems">): OutageReport {
  const reasons = new Map<string, string>();
  let last: string | undefined;
  let isWatched = false;

  return {
    watched(server) {
      if (isWatched) return;
      const message = last === server ? "watching the server again" : "watching the server";
      logger.info(message, { server, before: last === server ? undefined : last });
      isWatched = true;
      last = server;
      for (const server of reasons.keys()) logger.solved({ server });
      reasons.clear();
      sink.problems(SCOPE, [], { isLogged: true });
    },
    failed(server, reason, isLeaving, next) {
      const isNews = reasons.get(server) !== reason;
      reasons.set(server, reason);
      isWatched = false;
      const [log, what] = isLeaving
        ? [logger.info, "the server closes the connection"]
        : [logger.warn, "cannot watch the server"];
      if (typeof next === "string") {
        if (isNews) log(`${what}, trying the next one`, { server, reason, next });
      } else if (isLeaving) {
        if (isNews) log(`${what}, reconnecting`, { server, reason });
      } else {
        const inSeconds = Math.round(next / 100) / 10;
        if (isNews) log(`${what}, retrying; the last state stays in effect`, { server, reason, inSeconds });
        const problems = Array.from(reasons, ([subject, detail]) => {
          return { code: "source-unreachable", subject, detail } as const;
        });
        sink.problems(SCOPE, problems, { isLogged: true });
      }
    },
  };
}

/** The choice among several servers: the current one as long as it works, then the next one in the list. */
interface Rotation {
  /** The index of the server to watch. */
  current(): number;
  /**
   * The current server failed, so the next one is current, after the last one the first. Returns whether every server has failed
   * since the last one that worked; `worked` says whether this one did, for a while.
   */
  failed(worked: boolean): boolean;
}

/** A choice among `count` servers that starts with the first. */
export function createRotation(count: number): Rotation {
  let index = 0;
  let failures = 0;
  return {
    current: () => index,
    failed(worked) {
      index = (index + 1) % count;
      failures = worked ? 1 : failures + 1;
      if (failures < count) return false;
      failures = 0;
      return true;
    },
  };
}

interface CallOptions extends Pick<GrpcSourceOptions, "tls" | "maxMessageBytes" | "clock"> {
  readonly address: WireAddress;
  /** `/package.Service/Method`. */
  readonly method: string;
  /** Sent when the call starts, and again whenever `onMessage` returns true. */
  readonly request: Uint8Array;
  readonly onMessage: (message: Uint8Array<ArrayBuffer>) => boolean;
  /** When to probe a silent server, and when to give up. */
  readonly liveness: LivenessLimits;
  readonly signal: AbortSignal;
}

/** The limit for unsent requests: each round requests the next one. */
const REQUEST_BYTES_WAITING = 64 * 1024;

/**
 * Makes a bidirectional streaming call on a new connection. Always throws: the reason of its end (ServerLeavingError after a
 * GOAWAY without an error), or the signal's reason.
 */
export async function call(options: CallOptions): Promise<never> {
  const { method, request, onMessage, clock, liveness: limits, signal } = options;
  signal.throwIfAborted();
  const { promise: ended, reject } = Promise.withResolvers<never>();
  // The promise may be rejected while nothing awaits it.
  ended.catch(() => {});
  const connection = await openConnection({ ...options, onEnd: reject });
  const liveness = watchLiveness({
    clock,
    limits,
    probe() {
      // A server that is shutting down accepts no more calls, but may continue this one for a while.
      if (connection.isOpen()) probe(connection, () => liveness.received());
    },
    onSilent: () => reject(new Error(silenceText(limits))),
  });
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const stream = connection.request(method);
    watchEnd(stream, reject);
    const frames = createFrameReader(options.maxMessageBytes ?? DEFAULT_MESSAGE_BYTES);
    const yieldAfter = startReading();
    stream.on("data", (bytes: Uint8Array) => {
      liveness.received();
      try {
        for (const message of frames.push(bytes)) {
          if (!onMessage(message)) continue;
          if (stream.writableLength > REQUEST_BYTES_WAITING) throw new Error("the server does not read requests");
          stream.write(framesOf([request]));
        }
        const turn = yieldAfter(bytes.length);
        if (turn === undefined) return;
        stream.pause();
        turn.then(() => stream.resume());
      } catch (error) {
        reject(error);
      }
    });
    stream.write(framesOf([request]));
    return await ended;
  } finally {
    signal.removeEventListener("abort", onAbort);
    liveness.stop();
    connection.close();
  }
}

/**
 * Calls an unknown method to get any answer. HTTP/2 has PING for this, but KPNG's servers disconnect a client that sends it more
 * than once in five minutes.
 */
function probe(connection: Connection, answered: () => void): void {
  const stream = connection.request(PROBE_METHOD, { endStream: true });
  stream.on("error", () => {});
  stream.on("response", answered);
  stream.resume();
}
