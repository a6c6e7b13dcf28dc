import type { Clock, Logger } from "../../platform/mod.ts";
import { what } from "./api_error.ts";
import type { ServerFailures } from "./recovery.ts";
import type { ApiClient } from "./http.ts";

/** The time after which an unanswered request is reported, in milliseconds. */
const SLOW_MS = 3_000;
const STREAM = "answers";

/** Wraps a client to measure how long the server takes to begin its answers: a slow one is a problem until it is in time. */
export function timeAnswers(
  api: ApiClient,
  { clock, logger, failures }: { readonly clock: Clock; readonly logger: Logger; readonly failures: ServerFailures },
): ApiClient & { readonly isSlow: () => boolean } {
  let isSlow = false;

  const end = () => {
    if (!isSlow) return;
    isSlow = false;
    failures.answered(STREAM);
  };

  return {
    get server() {
      return api.server;
    },
    /** Whether a request was not answered in time, and none was since. */
    isSlow: () => isSlow,
    close: () => api.close(),
    async send(request, onChunk, signal) {
      const { server } = api, startedMs = clock.monotonic();
      const cancel = clock.schedule(SLOW_MS, () => {
        // Any other failure says more.
        if (isSlow || failures.isFailing()) return;
        isSlow = true;
        const subject = { verb: request.verb, resource: request.resource, server };
        const message = `${what(subject)} is not answered within ${SLOW_MS / 1000} s; waiting`;
        logger.warn("the API server answers slowly", { server, error: message });
        failures.failed(STREAM, { kind: "timeout", message });
      });
      const timed = {
        ...request,
        onHeaders(headers: Headers) {
          cancel();
          if (isSlow && clock.monotonic() - startedMs < SLOW_MS) {
            logger.info("the API server answers in time again", { server });
            end();
          }
          request.onHeaders?.(headers);
        },
        get readDeadlineMs() {
          return request.readDeadlineMs;
        },
      };
      try {
        await api.send(timed, onChunk, signal);
      } catch (error) {
        end();
        throw error;
      } finally {
        cancel();
      }
    },
  };
}
