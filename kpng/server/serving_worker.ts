/** A worker's side: the gRPC server of its connections, with the state of the main isolate. */
import { type Clock, errorText, type Fields, type Logger } from "../../platform/mod.ts";
import { type IsolateServer, serveInIsolate } from "./isolate.ts";
import { openTally } from "./tally.ts";
import type { FromServingWorker, ServingStart, ToServingWorker } from "./worker_protocol.ts";
import { createWorkerState } from "./worker_state.ts";

/** Serves as the main isolate's messages say, which are given to the returned function. */
export function serveAsWorker(
  clock: Clock,
  post: (message: FromServingWorker) => void,
): (message: ToServingWorker) => void {
  const state = createWorkerState(clock, post);
  const logger = createPostingLogger(post, {});
  let server: IsolateServer | undefined;

  const start = async ({ address, tls, clientOrganization, limits, memory, row }: ServingStart) => {
    try {
      server = await serveInIsolate({
        address,
        tls,
        clientOrganization,
        sharesPort: true,
        state,
        limits,
        tally: openTally(memory, row),
        clock,
        logger,
        lag: { onReceived: (revision, wasWritten) => post({ type: "received", revision, wasWritten }) },
      });
      post({ type: "listening" });
    } catch (error) {
      post({ type: "failed", reason: errorText(error) });
    }
  };

  return (message) => {
    switch (message.type) {
      case "start":
        void start(message);
        break;
      case "renew":
        server?.renew(message.tls);
        break;
      case "close":
        void Promise.resolve(server?.close()).then(() => post({ type: "closed" }));
        break;
      case "ping":
        post({ type: "pong" });
        break;
      default:
        state.take(message);
    }
  };
}

/** A logger whose lines the main isolate writes. */
function createPostingLogger(post: (message: FromServingWorker) => void, bound: Fields): Logger {
  const at = (level: "warn" | "info" | "debug") => (message: string, fields: Fields = {}) => {
    const texts = Object.entries({ ...bound, ...fields }).map((
      [name, value],
    ) => [
      name,
      typeof value === "number" || typeof value === "boolean" ? value : value === undefined ? undefined : String(value),
    ]);
    post({ type: "log", level, message, fields: Object.fromEntries(texts) });
  };
  return {
    error: at("warn"),
    warn: at("warn"),
    info: at("info"),
    debug: at("debug"),
    trace: () => {},
    with: (fields) => createPostingLogger(post, { ...bound, ...fields }),
  };
}
