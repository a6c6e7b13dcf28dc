/**
 * The client and source for an API server: list and watch, credentials, recovery, and sending objects (Events).
 *
 *   resource.ts      how to request each kind
 *   reflector.ts     list, watch, retry and relist of one resource
 *   list.ts          paged lists, parsed incrementally
 *   watch.ts         one watch, and how long it may be silent
 *   known_objects.ts deduplicates objects by version
 *   recovery.ts      the failures of one server, and the reflectors' waits
 *   http.ts          requests, and how they notice that the server is reachable again
 *   http_client.ts   the client that sends them, with its connections
 *   named_server.ts  the same for a server whose certificate has another name
 *   answer_time.ts   detects that the server answers slowly
 *   api_error.ts     failed requests, classified
 *   credentials.ts   finds the API server and its credentials
 *   access.ts        the server's URL and the origin of each credential, inline or in files
 *   kubeconfig.ts    kubeconfig files
 *   exec_plugin.ts   credential plugins: programs (`exec`)
 *   objects.ts       reads, creates and patches single objects; names of Nodes, UIDs of Services
 *
 * In: a kubeconfig or service account. Out: objects, to a `SourceSink`. May touch: the network, files, credential plugins.
 */
import {
  ApiError,
  type ApiErrorKind,
  type Decode,
  type Kind,
  type LabelKeys,
  type LinkEvent,
  type ReportLink,
  type Source,
} from "../../core/objects/mod.ts";
import {
  type Clock,
  createBackoff,
  type Logger,
  sleep,
  systemClock,
  untilAborted,
  withDeadline,
} from "../../platform/mod.ts";
import { timeAnswers } from "./answer_time.ts";
import { type ConnectionOptions, loadCredentials } from "./credentials.ts";
import { createRecovery, createServerFailures, type ServerFailures } from "./recovery.ts";
import { type ApiClient, type ApiClientOptions, createApiClient } from "./http.ts";
import { createKnownObjects } from "./known_objects.ts";
import { runReflector } from "./reflector.ts";
import { resourcesOf, streamOf } from "./resource.ts";
export type { ApiClient } from "./http.ts";
export { type ApiServer, KubeconfigError, pluginOf, readApiServer } from "./kubeconfig.ts";
export { listNodeNames, otherNodesText, readNode, readObject, readServiceUid, sendObject } from "./objects.ts";
export { resourcesOf } from "./resource.ts";

type ApiConnectionOptions =
  & ConnectionOptions
  & Pick<ApiClientOptions, "logger" | "responseDeadlineMs" | "onRequest">;

interface KubernetesSourceOptions {
  /** The connection, which the caller closes after the source has ended. */
  readonly api: ApiClient;
  readonly kinds: readonly Kind[];
  /** The name of the only Node object to watch; undefined for all. */
  readonly nodeName: string | undefined;
  /** The service proxy name to select; undefined for services without that label. */
  readonly serviceProxyName?: string;
  /** The labels that are watched; none by default. */
  readonly labelKeys?: LabelKeys;
  readonly decode: Decode;
  /** Receives the state of the link to the API server; without it, a silent server is not probed. */
  readonly onLink?: ReportLink;
  readonly logger: Logger;
  readonly clock?: Clock;
  /** A number from 0 up to 1; Math.random by default. */
  readonly random?: () => number;
  /** The waits after failures: client-go's longest, and a shorter first one by default. */
  readonly backoff?: { readonly firstMs: number; readonly longestMs: number };
  /** The number of objects in one page of a list; see `ListOptions` for the default. */
  readonly pageSize?: number;
  /**
   * The maximum silence of a list or watch before it is retried, in milliseconds. By default 30 s for a list; for a watch, 1.5
   * to 2.5 times the interval of the server's bookmarks (about a minute), at least 5 s, or the requested duration of 5 to 10
   * minutes without bookmarks.
   */
  readonly readDeadlineMs?: number;
}

/** Creates a client; opens no connection yet. Throws an Error that names the problem and its place. */
export async function connectToApi(options: ApiConnectionOptions): Promise<ApiClient> {
  const { logger, clock = systemClock, responseDeadlineMs, onRequest } = options;
  const credentials = await loadCredentials(options, logger);
  return createApiClient({ credentials, clock, logger, responseDeadlineMs, onRequest });
}

/** A source that lists and watches an API server. It retries failures, with a warning, until the signal aborts. */
export function createKubernetesSource(options: KubernetesSourceOptions): Source {
  const { kinds, nodeName, serviceProxyName, labelKeys, decode, logger } = options;
  const { clock = systemClock, random = Math.random, pageSize, readDeadlineMs, onLink = () => {} } = options;
  const { firstMs, longestMs } = options.backoff ?? { firstMs: 250, longestMs: 30_000 };
  const recovery = createRecovery({ clock, random });
  return {
    async run(sink, signal) {
      const failures = createServerFailures(options.api, sink.problems);
      const api = timeAnswers(options.api, { clock, logger, failures });
      const shared = { api, clock, logger, recovery, failures, random, pageSize, readDeadlineMs };
      const probe = createLinkProbe(api, { clock, logger, onLink });
      await Promise.all([
        options.onLink && untilAborted(probe.run(failures, signal), signal),
        ...resourcesOf(kinds, nodeName, serviceProxyName, labelKeys).map((resource) => {
          const backoff = createBackoff({ firstMs, longestMs, random });
          const known = createKnownObjects(resource.kind, decode, sink);
          const stream = streamOf(resource);
          const onEvent = (event: LinkEvent) => {
            if (event.type !== "failed") probe.received();
            onLink(stream, api.server, event);
          };
          const reflecting = runReflector({ resource, known, backoff, onLink: onEvent, ...shared }, sink, signal);
          return untilAborted(reflecting, signal);
        }),
      ]);
    },
  };
}

/** The silence of the API server after which it is probed, in milliseconds; a kubelet writes its Lease every 10 s. */
const SILENCE_MS = 8_000;
/** The maximum time until it answers a probe, in milliseconds. */
const ANSWER_MS = 5_000;
const STREAM = "probe";
const NO_ANSWER: readonly ApiErrorKind[] = ["unreachable", "dns", "timeout", "certificate", "certificate-expired"];

/** Detects an API server that has disappeared without closing its connections, as after a power failure. */
interface LinkProbe {
  /** Call it whenever the server sends something; it ends the failure of a probe. */
  received(): void;
  /** Requests the server's version whenever it has been silent or is slow, until the signal aborts. */
  run(failures: ServerFailures, signal: AbortSignal): Promise<void>;
}

/**
 * Detects an API server that has disappeared without closing its connections, as after a power failure. Any answer counts,
 * since only the connection is in question. A slow server is probed even if it sends something.
 */
export function createLinkProbe(
  api: ReturnType<typeof timeAnswers>,
  { clock, logger, onLink }: { readonly clock: Clock; readonly logger: Logger; readonly onLink: ReportLink },
): LinkProbe {
  let lastReceivedMs = clock.monotonic();
  let solve: (() => void) | undefined;

  const received = () => {
    lastReceivedMs = clock.monotonic();
    solve?.();
    solve = undefined;
  };
  const failure = async (signal: AbortSignal): Promise<ApiError | undefined> => {
    const request = { verb: "get", resource: "version", path: "/version", readDeadlineMs: ANSWER_MS };
    const late = new ApiError("timeout", `${api.server} has not answered for ${ANSWER_MS / 1000} s`);
    try {
      await withDeadline(clock, ANSWER_MS, late, signal, (signal) => api.send(request, () => {}, signal));
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof ApiError)) throw error;
      if (NO_ANSWER.includes(error.kind)) return error;
    }
  };

  return {
    received,
    async run(failures, signal) {
      let hasWaited = false;
      for (;;) {
        const silentMs = clock.monotonic() - lastReceivedMs;
        if (solve === undefined && silentMs < SILENCE_MS && !(hasWaited && api.isSlow())) {
          await sleep(clock, SILENCE_MS - silentMs, signal);
          hasWaited = true;
          continue;
        }
        hasWaited = false;
        const error = await failure(signal);
        if (error === undefined) {
          onLink(STREAM, api.server, { type: "received" });
          received();
          continue;
        }
        const { server } = api;
        if (solve === undefined) logger.warn("the API server is silent", { server, error: error.message });
        solve = () => {
          logger.info("the API server answers again", { server });
          logger.solved({ server });
          onLink(STREAM, api.server, { type: "answered" });
          failures.answered(STREAM);
        };
        onLink(STREAM, api.server, { type: "failed", error: error.message, retryInMs: SILENCE_MS });
        failures.failed(STREAM, error);
        await sleep(clock, SILENCE_MS, signal);
      }
    },
  };
}
