/** A server of KPNG's protocol (`sluice serve` or a KPNG program) as a source. */
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
import { call, ServerLeavingError } from "./call.ts";

/** The scope of the connection's problem. */
const SCOPE = "gRPC server";

/** Options of `createGrpcSource`. */
export interface GrpcSourceOptions {
  readonly address: WireAddress;
  readonly tls: TlsFiles | undefined;
  /** Whether to watch the state of the whole cluster or what this node may use. */
  readonly scope: keyof typeof METHODS;
  readonly nodeName: string;
  /** Whether to include all nodes and details, to pass them on. */
  readonly inFull: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The waits after failures. */
  readonly backoff?: { readonly firstMs: number; readonly longestMs: number };
  /** LIVENESS by default. */
  readonly liveness?: LivenessLimits;
  /** A number from 0 up to 1; Math.random by default. */
  readonly random?: () => number;
}

/** A source that watches a server and reconnects after failures; meanwhile the last state stays in effect. */
export function createGrpcSource(options: GrpcSourceOptions): Source {
  const { address, tls, scope, nodeName, inFull, clock, random, liveness = LIVENESS } = options;
  const logger = options.logger.with({ server: wireAddressText(address) });
  const { firstMs, longestMs } = options.backoff ?? { firstMs: 250, longestMs: 30_000 };
  const request = WATCH_REQUEST.encode({
    nodeName: scope === "local" ? nodeName : undefined,
    extended: true,
    onlyNode: scope === "global" && !inFull ? nodeName : undefined,
  });
  return {
    async run(sink, signal) {
      const receiver = createReceiver({ sink, nodeName, inFull });
      const backoff = createBackoff({ firstMs, longestMs, random });
      let loggedReason: string | undefined;
      let isWatching = false;

      const onMessage = (message: Uint8Array<ArrayBuffer>): boolean => {
        const isComplete = receiver.receive(message);
        if (!isComplete) return false;
        isWatching = true;
        if (loggedReason !== undefined) logger.info("watching the server again");
        loggedReason = undefined;
        sink.problems(SCOPE, [], { isLogged: true });
        backoff.reset();
        return true;
      };

      while (!signal.aborted) {
        try {
          await call({ address, tls, method: METHODS[scope], request, onMessage, clock, liveness, signal });
        } catch (error) {
          if (signal.aborted) return;
          const waitMs = backoff.nextMs();
          const reason = errorText(error);
          if (error instanceof ServerLeavingError && isWatching) {
            // Not a failure: the server asks for a new connection, and the next attempt shows whether there is one.
            isWatching = false;
            logger.info("the server closes the connection, reconnecting", { reason });
            loggedReason = reason;
            await sleep(clock, waitMs, signal).catch(() => {});
            backoff.reset();
            continue;
          }
          isWatching = false;
          const inSeconds = Math.round(waitMs / 100) / 10;
          // An outage is one line, however long it lasts.
          if (reason !== loggedReason) {
            logger.warn("cannot watch the server, retrying; the last state stays in effect", { reason, inSeconds });
          }
          loggedReason = reason;
          const problem = { code: "source-unreachable", subject: wireAddressText(address), detail: reason } as const;
          sink.problems(SCOPE, [problem], { isLogged: true });
          await sleep(clock, waitMs, signal).catch(() => {});
        }
      }
    },
  };
}
