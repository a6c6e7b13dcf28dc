import { type Clock, errorText, sleep } from "../../platform/mod.ts";
import type { ReportLink } from "../../observe/mod.ts";
import type { SourceSink } from "../../core/objects/mod.ts";
import { ApiError } from "./api_error.ts";
import type { ApiClient } from "./http.ts";

/** How long the API server may send nothing before it is probed, in milliseconds: a kubelet writes its Lease as often. */
const SILENCE_MS = 10_000;
/** How long it may take to answer a probe, in milliseconds. */
const ANSWER_MS = 5_000;
const STREAM = "probe";

/** Options of `createLinkProbe`. */
export interface LinkProbeOptions {
  readonly api: ApiClient;
  readonly clock: Clock;
  readonly onLink: ReportLink;
}

/** Notices an API server that is gone without having closed its connections, as after a power cut. */
export interface LinkProbe {
  /** Call it whenever the server sends something; it ends the failure of a probe. */
  received(): void;
  /** Requests the server's version whenever it has been silent, until the signal aborts. */
  run(sink: Pick<SourceSink, "problems">, signal: AbortSignal): Promise<void>;
}

/** Creates a probe. Any answer counts, since only the connection is in question. */
export function createLinkProbe({ api, clock, onLink }: LinkProbeOptions): LinkProbe {
  let lastReceivedMs = clock.monotonic();
  let solve: (() => void) | undefined;

  const received = () => {
    lastReceivedMs = clock.monotonic();
    solve?.();
    solve = undefined;
  };
  const failure = async (signal: AbortSignal): Promise<string | undefined> => {
    const deadline = new AbortController();
    const cancel = clock.schedule(ANSWER_MS, () => deadline.abort(new Error("no answer")));
    const request = { verb: "get", resource: "version", path: "/version", readDeadlineMs: ANSWER_MS };
    try {
      await api.send(request, () => {}, AbortSignal.any([signal, deadline.signal]));
    } catch (error) {
      signal.throwIfAborted();
      if (deadline.signal.aborted) return `${api.server} has not answered for ${ANSWER_MS / 1000} s`;
      if (!(error instanceof ApiError)) throw error;
      if (["unreachable", "dns", "timeout", "certificate"].includes(error.kind)) return errorText(error);
    } finally {
      cancel();
    }
  };

  return {
    received,
    async run(sink, signal) {
      for (;;) {
        const silentMs = clock.monotonic() - lastReceivedMs;
        if (solve === undefined && silentMs < SILENCE_MS) {
          await sleep(clock, SILENCE_MS - silentMs, signal);
          continue;
        }
        const error = await failure(signal);
        if (error === undefined) {
          onLink(STREAM, api.server, { type: "received" });
          received();
          continue;
        }
        solve = () => {
          onLink(STREAM, api.server, { type: "answered" });
          sink.problems(STREAM, []);
        };
        onLink(STREAM, api.server, { type: "failed", error, retryInMs: SILENCE_MS });
        sink.problems(STREAM, [{ code: "source-unreachable", subject: api.server, detail: error }]);
        await sleep(clock, SILENCE_MS, signal);
      }
    },
  };
}
