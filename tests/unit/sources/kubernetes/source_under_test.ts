import { createApiClient } from "../../../../sources/kubernetes/http.ts";
import { type ConnectionOptions, loadCredentials } from "../../../../sources/kubernetes/credentials.ts";
import { createKubernetesSource } from "../../../../sources/kubernetes/kubernetes_source.ts";
import type { ClusterObject, Kind } from "../../../../core/objects/cluster_object.ts";
import type { Decoded } from "../../../../core/objects/metadata.ts";
import { type Clock, systemClock } from "../../../../platform/clock.ts";
import { createLogger } from "../../../../platform/log.ts";
import {
  type ApiObject,
  type FakeApiServer,
  type FakeApiServerOptions,
  startFakeApiServer,
} from "../../../fakes/api_server.ts";

/** A source that reads from a server, and what became of it so far. */
export interface SourceUnderTest {
  readonly server: FakeApiServer;
  /** What the sink was told, a line each: `set Service default/web 3`, `delete Service default/web`, `synced Node`. */
  readonly said: string[];
  /** What the logger was told. */
  readonly logged: string[];
  /** Resolves once `done` holds of `said` and `logged`. */
  until(done: () => boolean): Promise<void>;
  /** Resolves once the sink was told `line`. */
  hears(line: string): Promise<void>;
  /** Resolves once a line with `text` was logged. */
  logs(text: string): Promise<void>;
}

/** What a test may change. */
export interface Settings {
  readonly server?: FakeApiServerOptions;
  readonly connection?: (server: FakeApiServer) => ConnectionOptions;
  /** What is watched; by default what every mode needs. */
  readonly kinds?: readonly Kind[];
  readonly pageSize?: number;
  readonly readDeadlineMs?: number;
  readonly responseDeadlineMs?: number;
  readonly clock?: Clock;
}

/** How long a test may wait for what should come within milliseconds; only one that fails takes that long. */
const PATIENCE_MS = 10_000;

/** Runs `test` with a source on node `n1`; stops it and sees it end. */
export async function withSource(
  prepare: (server: FakeApiServer) => void,
  test: (source: SourceUnderTest) => Promise<void>,
  settings: Settings = {},
): Promise<void> {
  const server = startFakeApiServer(settings.server);
  prepare(server);
  const clock = settings.clock ?? systemClock;
  const said: string[] = [];
  const logged: string[] = [];
  const waiting = new Set<() => void>();
  const tell = (lines: string[], line: string) => {
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
  const logger = createLogger({ level: "trace", format: "text", clock, write: (line) => tell(logged, line) });
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
    set: (object) => tell(said, `set ${nameOf(object)} ${(object as unknown as { version: string }).version}`),
    delete: (ref) => tell(said, `delete ${nameOf(ref)}`),
    synced: (kind) => tell(said, `synced ${kind}`),
    reset: (kind) => tell(said, `reset ${kind}`),
    problem: (where, message) => tell(said, `problem ${where}: ${message}`),
  }, stop.signal);
  let cancelGuard = () => {};
  const guard = new Promise<never>((_resolve, reject) => {
    cancelGuard = systemClock.schedule(PATIENCE_MS, () => {
      reject(new Error(`what the test waits for did not come\nsaid:\n${said.join("\n")}\nlogged:\n${logged.join("")}`));
    });
  });
  try {
    const tested = test({
      server,
      said,
      logged,
      until,
      hears: (line) => until(() => said.includes(line)),
      logs: (text) => until(() => logged.some((line) => line.includes(text))),
    });
    await Promise.race([tested, guard]);
  } finally {
    cancelGuard();
    stop.abort();
    await running;
    api.close();
    await server.close();
  }
}

/** A Service as the API has it. */
export function service(name: string, fields: Readonly<Record<string, unknown>> = {}): ApiObject {
  return { kind: "Service", metadata: { namespace: "default", name }, ...fields };
}

/** Keeps name and version of every object; refuses the ones with a field `unusable`. */
function decodeStub(kind: Kind, raw: unknown): Decoded {
  const { metadata, unusable } = raw as ApiObject;
  const ref = { kind, namespace: metadata.namespace ?? "", name: metadata.name };
  if (unusable) return { ref, object: undefined, problems: ["it is unusable"] };
  return { ref, object: { ...ref, version: metadata.resourceVersion } as unknown as ClusterObject, problems: [] };
}

function nameOf(object: { readonly kind: Kind; readonly name: string; readonly namespace?: string }): string {
  return `${object.kind} ${object.namespace ? `${object.namespace}/` : ""}${object.name}`;
}
