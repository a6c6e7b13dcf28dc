/** The gRPC server of one isolate: its calls and its socket. */
import { errorText, sleep } from "../../platform/mod.ts";
import { int32, message, text } from "../codec/mod.ts";
import { type TlsFiles, type WireAddress, wireAddressText } from "../address/mod.ts";
import { framesOf, STATUS, StatusError } from "../transport/mod.ts";
import type { ServedState, Subscription } from "./answers.ts";
import { type Call, type CallHeaders, carryOut, readCallHeaders, refuse, type RequestStream } from "./call.ts";
import { admitConnections } from "./connections.ts";
import type { ServerContext, ServerSettings } from "./context.ts";
import { createLag, joinTraffic, type Lag, type LagOptions, watchersOf } from "./metrics.ts";
import type { Outlet } from "./outlet.ts";
import { createChangeWaiters, createSemaphore, type Revisions, waitAmong } from "./waiting.ts";
import { openWatch, scopeOf, serveWatcher } from "./watcher.ts";
import type { Http2SecureServer, Http2Server, ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import type { AddressInfo, ListenOptions, Server } from "node:net";

interface IsolateOptions extends ServerSettings, ServerContext {
  /** Whether other isolates listen on the same address, among which the kernel distributes the connections. */
  readonly sharesPort: boolean;
  readonly state: ServedState;
  readonly lag: Omit<LagOptions, "clock">;
}

/** The server of one isolate. */
export interface IsolateServer {
  /** The bound address, with the actual port. */
  readonly address: WireAddress;
  /** Uses other certificates for new connections; whether client certificates are required does not change. */
  renew(tls: TlsFiles): void;
  /** Sends GOAWAY, ends every call with UNAVAILABLE, then the connections, at the latest after `lingerMs`. */
  close(): Promise<void>;
}

/** Starts a server. Throws an Error if it cannot listen on the address. */
export async function serveInIsolate(options: IsolateOptions): Promise<IsolateServer> {
  const { state: { revisions }, clock, logger } = options;
  const lag = createLag({ clock, ...options.lag });
  const unsubscribe = revisions.subscribe(() => lag.changed(revisions.revision()));
  const calls = createCalls(options, lag);

  const server = await listen(options);
  let currentCa = options.tls?.ca;
  const connections = admitConnections(server, options);
  server.on("stream", (stream, headers) => {
    // A frame that violates the protocol destroys the streams of the same packet before they are emitted, and their errors
    // come after this. Without a listener, they would crash the process.
    stream.on("error", () => {});
    const outlet = connections.outletOf(stream.session as ServerHttp2Session | undefined);
    if (outlet !== undefined && !stream.destroyed && !stream.closed) calls.start(stream, headers, outlet);
  });
  server.on("sessionError", (error) => logger.debug("connection failed", { error: errorText(error) }));
  server.on("error", (error) => logger.warn("gRPC server error", { error: errorText(error) }));

  return {
    address: boundAddress(options.address, server.address()),
    renew({ ca, crt: cert, key }) {
      (server as Http2SecureServer).setSecureContext({ ca, cert, key });
      if (ca !== currentCa) connections.authorityChanged();
      currentCa = ca;
    },
    async close() {
      unsubscribe();
      const ended = new Promise<void>((resolve) => server.close(() => resolve()));
      connections.close();
      await calls.stop();
      await ended;
    },
  };
}

function boundAddress(asked: WireAddress, bound: unknown): WireAddress {
  if (asked.kind === "unix") return asked;
  const port = (bound as { readonly port?: number } | null)?.port;
  return { ...asked, port: port ?? asked.port };
}

interface OpenedCall extends CallHeaders {
  readonly stream: ServerHttp2Stream;
  readonly outlet: Outlet;
}

/**
 * Carries out calls, or refuses them. When it is stopped, all calls end with UNAVAILABLE, and others are refused; health watches
 * report NOT_SERVING first.
 */
function createCalls({ state: { answers, revisions }, ...context }: IsolateOptions, lag: Lag) {
  const { limits, tally, clock, logger } = context;
  const waiters = createChangeWaiters(revisions, clock);
  const transfers = createSemaphore(limits.transfers);
  const health = createHealth(revisions);
  const watchers = new Set<AbortController>();
  const serviceCalls = new Set<AbortController>();
  const end = new StatusError(STATUS.UNAVAILABLE, "the server is shutting down");
  let isStopping = false;

  /** Carries out a call of this group; resolves with the error that has ended it. */
  const run = async (
    group: Set<AbortController>,
    { stream, outlet, timeoutMs }: OpenedCall,
    serve: (call: Call) => Promise<void>,
    onStall: () => void,
  ) => {
    const abort = new AbortController();
    group.add(abort);
    const error = await carryOut(stream, serve, { ...context, outlet, timeoutMs, abort, onStall });
    group.delete(abort);
    return error;
  };

  const watch = async (opened: OpenedCall, scope: Subscription["scope"]) => {
    const traffic = joinTraffic(scope, tally, lag);
    const error = await run(watchers, opened, (call) => {
      const { signal } = call;
      const watcher = openWatch(call, scope, traffic);
      return serveWatcher(watcher, { answers, clock, signal, transfers, changed: waiters.changed, traffic });
    }, traffic.stalled);
    if (error !== undefined) logger.debug("watcher disconnected", { scope, reason: errorText(error) });
    traffic.leave();
  };

  const serveOther = async (opened: OpenedCall, method: (call: Call) => Promise<void>) => {
    tally.add("service calls", 1);
    const error = await run(serviceCalls, opened, method, () => {});
    if (error !== undefined) logger.debug("call ended", { path: opened.path, reason: errorText(error) });
    tally.add("service calls", -1);
  };

  const start = (stream: ServerHttp2Stream, headers: Readonly<Record<string, unknown>>, outlet: Outlet) => {
    const call = readCallHeaders(headers);
    if ("message" in call) return refuse(stream, call, context);
    const refuseWith = (status: number, message: string) => {
      refuse(stream, { httpStatus: 200, status, message }, context);
    };
    if (isStopping) return refuseWith(end.status, end.message);
    const opened = { ...call, stream, outlet };
    const scope = scopeOf(call.path);
    const method = health.methods.get(call.path);
    if (scope !== undefined) {
      if (watchersOf(tally) < limits.streams) return void watch(opened, scope);
      tally.add("refused watchers", 1);
      return refuseWith(STATUS.RESOURCE_EXHAUSTED, `limit of ${limits.streams} watchers reached`);
    }
    if (method === undefined) return refuseWith(STATUS.UNIMPLEMENTED, `the method ${call.path} is not implemented`);
    if (tally.total("service calls") < limits.serviceCalls) return void serveOther(opened, method);
    refuseWith(STATUS.RESOURCE_EXHAUSTED, `limit of ${limits.serviceCalls} health checks reached`);
  };

  return {
    start,
    async stop() {
      isStopping = true;
      waiters.close();
      health.stop();
      for (const abort of watchers) abort.abort(end);
      // The reports of the end are written in this turn.
      await sleep(clock, 0);
      for (const abort of serviceCalls) abort.abort(end);
    },
  };
}

/** An address that several isolates can listen on. */
export type TcpAddress = Extract<WireAddress, { readonly kind: "tcp" }>;

/** Starts an HTTP/2 server. Throws an Error that names the problem and the fix. */
async function listen({ address, tls, limits, sharesPort }: IsolateOptions): Promise<Http2Server> {
  const { createServer, createSecureServer } = await import("node:http2");
  const options = {
    settings: {
      maxConcurrentStreams: limits.streamsPerConnection,
      maxHeaderListSize: limits.headerBytes,
      enablePush: false,
    },
    maxHeaderListPairs: limits.headers,
  };
  if (tls !== undefined && tls.crt === undefined) {
    throw new Error(
      "--listen-tls-ca needs --listen-tls-crt and --listen-tls-key: a server that requires certificates needs its own",
    );
  }
  const server = tls === undefined ? createServer(options) : createSecureServer({
    ...options,
    cert: tls.crt,
    key: tls.key,
    ...tls.ca !== undefined && { ca: tls.ca, requestCert: true, rejectUnauthorized: true },
  });
  if (address.kind === "unix") removeStaleSocket(address.path);
  await listening(
    server,
    address,
    address.kind === "unix"
      ? { path: address.path }
      : { host: address.host || undefined, port: address.port, reusePort: sharesPort },
  );
  // Access to the socket is access to the cluster's state, so only the owner gets it.
  if (address.kind === "unix") Deno.chmodSync(address.path, 0o600);
  return server;
}

function listening(server: Server, address: WireAddress, options: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => {
      reject(new Error(`--listen ${wireAddressText(address)}: cannot listen: ${errorText(error)}`));
    };
    server.once("error", fail);
    server.listen(options, () => {
      server.off("error", fail);
      resolve();
    });
  });
}

/**
 * Returns the address with a port that is free now. Throws an Error if another program listens on it: workers that share a port
 * would share it with another server of the same user, too.
 */
export async function freeAddress(address: TcpAddress): Promise<TcpAddress> {
  const { createServer } = await import("node:net");
  const server = createServer();
  await listening(server, address, { host: address.host || undefined, port: address.port });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return { ...address, port };
}

/** Removes a socket left behind by an earlier server, but nothing else. */
function removeStaleSocket(path: string): void {
  try {
    if (Deno.lstatSync(path).isSocket) Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** A health status (enum `ServingStatus`). */
export const HEALTH = { UNKNOWN: 0, SERVING: 1, NOT_SERVING: 2, SERVICE_UNKNOWN: 3 } as const;

/** The messages of gRPC's health checks (grpc.health.v1). */
export const HEALTH_REQUEST = message({ service: text(1) });
export const HEALTH_RESPONSE = message({ status: int32(1, HEALTH) });

/** The services whose health can be asked for; the empty name is the whole server. */
const SERVICES: ReadonlySet<string> = new Set(["", "localv1.Sets", "globalv1.Sets"]);

/** Health checks (gRPC: health-checking.md) that report SERVING once the store is complete, until they are stopped. */
function createHealth(store: Revisions) {
  const waiting = new Set<() => void>();
  let hasStopped = false;
  const current = () => store.ready() && !hasStopped ? HEALTH.SERVING : HEALTH.NOT_SERVING;
  const changed = () => {
    for (const wake of [...waiting]) wake();
  };
  const unsubscribe = store.subscribe(() => {
    unsubscribe();
    changed();
  });

  const check = async (call: Call) => {
    const requests = call.open(HEALTH_REQUEST.decode);
    const service = await serviceOf(requests);
    if (!SERVICES.has(service)) throw new StatusError(STATUS.NOT_FOUND, `the service ${service} is unknown`);
    await requests.write(reportOf(current()));
  };

  const watch = async (call: Call) => {
    const requests = call.open(HEALTH_REQUEST.decode);
    const isKnown = SERVICES.has(await serviceOf(requests));
    let reported: number | undefined;
    for (;;) {
      const status = isKnown ? current() : HEALTH.SERVICE_UNKNOWN;
      if (status !== reported) await requests.write(reportOf(status));
      reported = status;
      // Nothing has changed while the report was written, or the loop reports it now.
      if (!isKnown || status === current()) await waitAmong(waiting, call.signal);
    }
  };

  return {
    /** By their paths. */
    methods: new Map([["/grpc.health.v1.Health/Check", check], ["/grpc.health.v1.Health/Watch", watch]]),
    stop() {
      unsubscribe();
      hasStopped = true;
      changed();
    },
  };
}

async function serviceOf(requests: RequestStream<{ readonly service?: string }>): Promise<string> {
  const request = await requests.next();
  if (request === undefined) throw new StatusError(STATUS.INVALID_ARGUMENT, "no request received");
  return request.service ?? "";
}

function reportOf(status: number): Uint8Array<ArrayBuffer> {
  return framesOf([HEALTH_RESPONSE.encode({ status })]);
}
