/** The Kubernetes API as a source: Services, EndpointSlices, this node's Node and what else a mode needs, listed and watched. */
import { type Clock, createBackoff, type Logger, systemClock } from "../../platform/mod.ts";
import type { ApiRequestOutcome } from "../../observe/mod.ts";
import type { Decode, Kind, Source } from "../../core/objects/mod.ts";
import { type ConnectionOptions, loadCredentials } from "./credentials.ts";
import { type ApiClient, createApiClient } from "./http.ts";
import { createKnownObjects } from "./known_objects.ts";
import { createRecovery } from "./recovery.ts";
import { runReflector } from "./reflector.ts";
import { resourcesOf } from "./resource.ts";

/** What reaching the API server needs. */
export interface ApiConnectionOptions extends ConnectionOptions {
  readonly logger: Logger;
  readonly clock?: Clock;
  /** How long the server may take to begin an answer, connecting included, in milliseconds; 30 s by default. */
  readonly responseDeadlineMs?: number;
  /** Told of every request that is sent. */
  readonly onRequest?: (outcome: ApiRequestOutcome) => void;
}

/** What the source needs. */
export interface KubernetesSourceOptions {
  /** The connection; it is the caller's, who closes it when the source has ended. */
  readonly api: ApiClient;
  /** What is listed and watched. */
  readonly kinds: readonly Kind[];
  /** The name of the one Node object that is wanted; undefined for those of all nodes. */
  readonly nodeName: string | undefined;
  readonly decode: Decode;
  readonly logger: Logger;
  readonly clock?: Clock;
  /** A number from 0 up to 1; Math.random by default. */
  readonly random?: () => number;
  /** The waits after failures: client-go's longest, and a shorter first one by default. */
  readonly backoff?: { readonly firstMs: number; readonly longestMs: number };
  /** How many objects one page of a list holds; see `ListOptions` for what it is by default. */
  readonly pageSize?: number;
  /**
   * How long silence may last in a list or a watch before the request is repeated, in milliseconds. By default
   * 30 s for a list; for a watch, 1.5 to 2.5 times what passes between the server's bookmarks (about a minute), 5 s at
   * least, and its own length of 5 to 10 minutes where no bookmarks come.
   */
  readonly readDeadlineMs?: number;
}

/**
 * Finds the API server and its credentials, and makes the connection that the source and others use. Opens files, but
 * no connection yet. Throws an Error that says what is missing or wrong, and where.
 */
export async function connectToApi(options: ApiConnectionOptions): Promise<ApiClient> {
  const { logger, clock = systemClock, responseDeadlineMs, onRequest } = options;
  const credentials = await loadCredentials(options, logger);
  return createApiClient({ credentials, clock, logger, responseDeadlineMs, onRequest });
}

/**
 * The source that reads from an API server. It retries whatever fails, with a warning that says why, until its signal.
 */
export function createKubernetesSource(options: KubernetesSourceOptions): Source {
  const { api, kinds, nodeName, decode, logger, clock = systemClock, random = Math.random, pageSize } = options;
  const { firstMs, longestMs } = options.backoff ?? { firstMs: 250, longestMs: 30_000 };
  const recovery = createRecovery({ clock, random });
  return {
    async run(sink, signal) {
      await Promise.all(
        resourcesOf(kinds, nodeName).map(async (resource) => {
          const backoff = createBackoff({ firstMs, longestMs, random });
          const known = createKnownObjects(resource.kind, decode, sink);
          const { readDeadlineMs } = options;
          try {
            await runReflector(
              { resource, api, known, clock, logger, backoff, recovery, random, pageSize, readDeadlineMs },
              sink,
              signal,
            );
          } catch (error) {
            if (!signal.aborted) throw error;
          }
        }),
      );
    },
  };
}
