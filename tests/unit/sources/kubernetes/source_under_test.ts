import { createApiClient } from "../../../../sources/kubernetes/http.ts";
import { type ConnectionOptions, loadCredentials } from "../../../../sources/kubernetes/credentials.ts";
import { createKubernetesSource } from "../../../../sources/kubernetes/mod.ts";
import type { ClusterObject, Kind } from "../../../../core/objects/cluster_object.ts";
import type { LabelKeys } from "../../../../core/objects/decode_options.ts";
import type { Decoded } from "../../../../core/objects/metadata.ts";
import { type Clock, systemClock } from "../../../../platform/clock.ts";
import { createLogger, limitRepeats } from "../../../../platform/log.ts";
import {
  type ApiObject,
  type FakeApiServer,
  type FakeApiServerOptions,
  startFakeApiServer,
} from "../../../fakes/api_server.ts";
import { sayProblems } from "../../../fakes/problems.ts";
import { inTime } from "../../../fakes/wait.ts";

/** A source that reads from a server, and its results so far. */
export interface SourceUnderTest {
  readonly server: FakeApiServer;
  /** The sink's calls as lines: `set Service default/web 3`, `delete Service default/web`, `synced Node`. */
  readonly received: string[];
  /** The log lines. */
  readonly logged: string[];
  /** Resolves when `done` is true for `received` and `logged`. */
  until(done: () => boolean): Promise<void>;
  /** Resolves when the sink has received `line`. */
  receives(line: string): Promise<void>;
  /** Resolves when a line with `text` was logged. */
  logs(text: string): Promise<void>;
}

/** The options of a test. */
export interface Settings {
  readonly server?: FakeApiServerOptions;
  readonly connection?: (server: FakeApiServer) => ConnectionOptions;
  /** The watched kinds; by default those of every mode. */
  readonly kinds?: readonly Kind[];
  readonly serviceProxyName?: string;
  readonly labelKeys?: LabelKeys;
  readonly pageSize?: number;
  readonly readDeadlineMs?: number;
  readonly responseDeadlineMs?: number;
  readonly clock?: Clock;
  /** The clock of the rate limit of log lines; without one, every line is logged. */
  readonly logClock?: Clock;
}

/** Runs `test` with a source on node `n1`, and stops the source. */
export async function withSource(
  prepare: (server: FakeApiServer) => void,
  test: (source: SourceUnderTest) => Promise<void>,
  settings: Settings = {},
): Promise<void> {
  const server = startFakeApiServer(settings.server);
  prepare(server);
  const clock = settings.clock ?? systemClock;
  const received: string[] = [];
  const logged: string[] = [];
  const waiting = new Set<() => void>();
  const record = (lines: string[], line: string) => {
    lines.push(line);
    for (const check of [...waiting]) check();
  };
  const until = (done: () => boolean) =>
    new Promise<void>((resolve) => {
      const check = () => {
        if (!done()) return;
        waiting.delete(check);
        resolve();
      };
      waiting.add(check);
      check();
    });
  const everyLine = createLogger({ level: "trace", format: "text", clock, write: (line) => record(logged, line) });
  const logger = settings.logClock ? limitRepeats(everyLine, settings.logClock) : everyLine;
  const connection = settings.connection?.(server) ?? { master: server.url };
  const { responseDeadlineMs, readDeadlineMs, pageSize } = settings;
  const api = createApiClient({
    credentials: await loadCredentials(connection, logger),
    clock,
    logger,
    responseDeadlineMs,
  });
  const source = createKubernetesSource({
    api,
    kinds: settings.kinds ?? ["Service", "EndpointSlice", "Node"],
    nodeName: "n1",
    serviceProxyName: settings.serviceProxyName,
    labelKeys: settings.labelKeys,
    decode: decodeStub,
    logger,
    clock,
    random: () => 0.5,
    backoff: { firstMs: 1, longestMs: 2 },
    pageSize,
    readDeadlineMs,
  });
  const stop = new AbortController();
  const running = source.run({
    set: (object) => record(received, `set ${nameOf(object)} ${(object as unknown as { version: string }).version}`),
    delete: (ref) => record(received, `delete ${nameOf(ref)}`),
    synced: (kind) => record(received, `synced ${kind}`),
    reset: (kind) => record(received, `reset ${kind}`),
    problems: sayProblems((where, message) => record(received, `problem ${where}: ${message}`)),
  }, stop.signal);
  try {
    const tested = test({
      server,
      received,
      logged,
      until,
      receives: (line) => until(() => received.includes(line)),
      logs: (text) => until(() => logged.some((line) => line.includes(text))),
    });
    await inTime(() => `said:\n${received.join("\n")}\nlogged:\n${logged.join("")}`, tested);
  } finally {
    stop.abort();
    await running;
    api.close();
    await server.close();
  }
}

/** A Service as in the API. */
export function service(name: string, fields: Readonly<Record<string, unknown>> = {}): ApiObject {
  return { kind: "Service", metadata: { namespace: "default", name }, ...fields };
}

/** Decodes every object to its name and version; refuses those with a field `unusable`. */
function decodeStub(kind: Kind, raw: unknown): Decoded {
  const { metadata, unusable } = raw as ApiObject;
  const ref = { kind, namespace: metadata.namespace ?? "", name: metadata.name };
  if (unusable) return { ref, object: undefined, problems: ["it is unusable"] };
  return { ref, object: { ...ref, version: metadata.resourceVersion } as unknown as ClusterObject, problems: [] };
}

function nameOf(object: { readonly kind: Kind; readonly name: string; readonly namespace?: string }): string {
  return `${object.kind} ${object.namespace ? `${object.namespace}/` : ""}${object.name}`;
}
