/** The Kubernetes API as a source. */
import { type Clock, createBackoff, type Logger, systemClock } from "../../platform/mod.ts";
import type { ApiRequestOutcome, LinkEvent, ReportLink } from "../../observe/mod.ts";
import type { Decode, Kind, LabelKeys, Source } from "../../core/objects/mod.ts";
import { type ConnectionOptions, loadCredentials } from "./credentials.ts";
import { type ApiClient, createApiClient } from "./http.ts";
import { createKnownObjects } from "./known_objects.ts";
import { createLinkProbe } from "./link_probe.ts";
import { createRecovery } from "./recovery.ts";
import { runReflector } from "./reflector.ts";
import { resourcesOf, streamOf } from "./resource.ts";

/** Options of `connectToApi`. */
export interface ApiConnectionOptions extends ConnectionOptions {
  readonly logger: Logger;
  readonly clock?: Clock;
  /** The maximum time until the server starts its answer, including the connection, in milliseconds; 30 s by default. */
  readonly responseDeadlineMs?: number;
  /** Called for every request sent. */
  readonly onRequest?: (outcome: ApiRequestOutcome) => void;
}

/** Options of `createKubernetesSource`. */
export interface KubernetesSourceOptions {
  /** The connection, which the caller closes after the source has ended. */
  readonly api: ApiClient;
  /** The kinds to list and watch. */
  readonly kinds: readonly Kind[];
  /** The name of the only Node object to watch; undefined for all. */
  readonly nodeName: string | undefined;
  /** Only services of this proxy; undefined for those of no other proxy. */
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

/**
 * Finds the API server and its credentials, and creates a client for it. Reads files, but opens no connection yet. Throws an
 * Error that names the problem and its place.
 */
export async function connectToApi(options: ApiConnectionOptions): Promise<ApiClient> {
  const { logger, clock = systemClock, responseDeadlineMs, onRequest } = options;
  const credentials = await loadCredentials(options, logger);
  return createApiClient({ credentials, clock, logger, responseDeadlineMs, onRequest });
}

/** A source that lists and watches an API server. It retries failures, with a warning, until the signal aborts. */
export function createKubernetesSource(options: KubernetesSourceOptions): Source {
  const {
    api,
    kinds,
    nodeName,
    serviceProxyName,
    labelKeys,
    decode,
    logger,
    clock = systemClock,
    random = Math.random,
    pageSize,
  } = options;
  const { firstMs, longestMs } = options.backoff ?? { firstMs: 250, longestMs: 30_000 };
  const recovery = createRecovery({ clock, random });
  const { onLink = () => {} } = options;
  const probe = createLinkProbe({ api, clock, onLink });
  return {
    async run(sink, signal) {
      const probing = options.onLink && probe.run(sink, signal).catch((error) => {
        if (!signal.aborted) throw error;
      });
      await Promise.all([
        probing,
        ...resourcesOf(kinds, nodeName, serviceProxyName, labelKeys).map(async (resource) => {
          const backoff = createBackoff({ firstMs, longestMs, random });
          const known = createKnownObjects(resource.kind, decode, sink);
          const { readDeadlineMs } = options;
          const onEvent = (event: LinkEvent) => {
            if (event.type !== "failed") probe.received();
            onLink(streamOf(resource), api.server, event);
          };
          try {
            await runReflector(
              {
                resource,
                api,
                known,
                clock,
                logger,
                backoff,
                recovery,
                onLink: onEvent,
                random,
                pageSize,
                readDeadlineMs,
              },
              sink,
              signal,
            );
          } catch (error) {
            if (!signal.aborted) throw error;
          }
        }),
      ]);
    },
  };
}
