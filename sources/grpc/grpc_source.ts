/** Servers of KPNG's protocol (`sluice serve` or KPNG programs) as a source, one of them watched at a time. */
import { type Clock, createBackoff, errorText, type Logger, sleep } from "../../platform/mod.ts";
import {
  LIVENESS,
  type LivenessLimits,
  type TlsFiles,
  type WireAddress,
  wireAddressText,
} from "../../kpng/transport/mod.ts";
import { METHODS, WATCH_REQUEST } from "../../kpng/messages/mod.ts";
import { createReceiver } from "../../kpng/receiving/mod.ts";
import type { Source } from "../../core/objects/mod.ts";
import type { ReportLink } from "../../observe/mod.ts";
import { ServerLeavingError } from "../../kpng/client/mod.ts";
import { call } from "./call.ts";
import { createOutageReport } from "./outage.ts";
import { createRotation } from "./rotation.ts";

/** Options of `createGrpcSource`. */
export interface GrpcSourceOptions {
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
  readonly clock: Clock;
  readonly logger: Logger;
  /** The waits after all servers have failed. */
  readonly backoff?: Waits;
  /** How long a server may take to send something before the next one is tried; longer each time that all have failed. */
  readonly patience?: Waits;
  /** LIVENESS by default. */
  readonly liveness?: LivenessLimits;
  /** A number from 0 up to 1; Math.random by default. */
  readonly random?: () => number;
}

/** A range of growing waits. */
interface Waits {
  readonly firstMs: number;
  readonly longestMs: number;
}

/** The name of the only stream of the link. */
const STREAM = "watch";

const BACKOFF: Waits = { firstMs: 250, longestMs: 30_000 };

/** A server answers within milliseconds; one that is down without refusing connections, or has no state yet, never does. */
const PATIENCE: Waits = { firstMs: 5_000, longestMs: 80_000 };

/** How long a server must be watched to count as working, so that servers that fail after each snapshot are backed off from. */
const WORKING_MS = 10_000;

/**
 * A source that watches one server for as long as it works, then the next one at once; after all have failed it waits. The last
 * state stays in effect until another server has sent all of its own, of which only the differences are reported.
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
        const error = await watchServer(addresses[index]!, options, { receiver, onRound, limitMs, signal });
        inUse = undefined;
        if (signal.aborted) return;
        const worked = sinceMs !== undefined && clock.monotonic() - sinceMs >= WORKING_MS;
        const reason = errorText(error);
        // Not a failure: the server asks for a new connection, and the next attempt shows whether there is one.
        const isLeaving = error instanceof ServerLeavingError && sinceMs !== undefined;
        const isLast = rotation.failed(worked);
        const waitMs = isLast ? backoff.nextMs() : 0;
        onLink(STREAM, server, { type: "failed", error: reason, retryInMs: waitMs });
        if (isLeaving) outage.leaving(server, reason, isLast ? undefined : names[rotation.current()]!);
        else if (isLast) outage.allFailed(server, reason, waitMs);
        else outage.failed(server, reason, names[rotation.current()]!);
        if (!isLast) continue;
        await sleep(clock, waitMs, signal).catch(() => {});
        if (isLeaving) backoff.reset();
        else answerMs = patience.nextMs();
      }
    },
  };
}

/** Input of `watchServer`. */
interface Watching {
  readonly receiver: ReturnType<typeof createReceiver>;
  /** Called after each round. */
  readonly onRound: () => void;
  /** How long the server may take to send something; undefined for no limit. */
  readonly limitMs: number | undefined;
  readonly signal: AbortSignal;
}

/** Watches one server until the call ends; returns the error that ended it, or the signal's reason. */
async function watchServer(
  address: WireAddress,
  { tls, scope, nodeName, inFull, maxMessageBytes, clock, liveness = LIVENESS }: GrpcSourceOptions,
  { receiver, onRound, limitMs, signal }: Watching,
): Promise<unknown> {
  const request = WATCH_REQUEST.encode({
    nodeName: scope === "local" ? nodeName : undefined,
    extended: true,
    onlyNode: scope === "global" && !inFull ? nodeName : undefined,
  });
  const given = new AbortController();
  const onAbort = () => given.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  const stopWaiting = limitMs === undefined
    ? () => {}
    : clock.schedule(limitMs, () => given.abort(new Error(`no answer within ${limitMs / 1000} s`)));
  let isAnswered = false;
  const onMessage = (message: Uint8Array<ArrayBuffer>): boolean => {
    if (!isAnswered) receiver.restart();
    isAnswered = true;
    stopWaiting();
    const endsRound = receiver.receive(message);
    if (endsRound) onRound();
    return endsRound;
  };
  try {
    return await call({
      address,
      tls,
      method: METHODS[scope],
      request,
      onMessage,
      maxMessageBytes,
      clock,
      liveness,
      signal: given.signal,
    });
  } catch (error) {
    return error;
  } finally {
    stopWaiting();
    signal.removeEventListener("abort", onAbort);
  }
}
