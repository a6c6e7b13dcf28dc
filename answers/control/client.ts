/** The client of a running proxy's control socket. */
import { type Clock, errorText, unlessAborted } from "../../platform/mod.ts";
import type { Question } from "../mod.ts";
import { pidFileOf, type ProxyProcess } from "./process.ts";
import type { ControlAnswers } from "./server.ts";

/** No proxy answers on the socket: it does not exist, or the proxy that created it has exited. */
export class NoProxyError extends Error {
  override readonly name = "NoProxyError";
  /** The exit status of a command that ends with this error. */
  readonly exitStatus = 3;
}

/** The proxy accepts connections but does not answer in time: it is stopped, or far too busy. */
class SilentProxyError extends Error {
  override readonly name = "SilentProxyError";
  /** The exit status of a command that ends with this error; the same as without a proxy. */
  readonly exitStatus = 3;
}

/** The timeout of a question, in milliseconds, unless the command line has another one. */
const LONGEST_ANSWER_MS = 5_000;

/** Who asks, and how long the answer may take. */
export interface Asker {
  readonly clock: Clock;
  readonly signal?: AbortSignal;
  /** 5 s by default. */
  readonly timeoutMs?: number;
  /** The network namespace whose proxy is asked, see `networkNamespace`; by default, any proxy is. */
  readonly networkNamespace?: string;
}

/**
 * Connects to the proxy that answers on `path`. The methods of the result reject if the question is malformed, if the
 * proxy fails to answer it, or if the asker's signal is aborted.
 * @throws {NoProxyError} if no proxy answers there, or one that serves another network namespace than the asker's
 * @throws {SilentProxyError} if the proxy does not answer in time; so do the methods of the result
 */
export async function connectToProxy(path: string, asker: Asker): Promise<ControlAnswers> {
  await withinTime(path, asker, () => requireListener(path));
  await requireNamespace(path, asker);
  const get = <T>(route: string, query: Record<string, string> = {}) => getFrom<T>(path, asker, route, query);
  return {
    explain: async (question) => await get("explain", await queryOf(question)),
    resolve: (name, from) => get("resolve", { name, ...(from === undefined ? {} : { from }) }),
    services: (search) => get("services", { search }),
    endpoints: (search) => get("endpoints", { search }),
    browse(question) {
      const given = Object.entries(question).filter(([, value]) => value !== undefined);
      return get("browse", Object.fromEntries(given.map(([name, value]) => [name, String(value)])));
    },
    state: (family) => get("state", { family }),
    status: () => get("status"),
    events: (since) => get("events", { since: String(since) }),
  };
}

/**
 * Returns the process that answers on `path`.
 * @throws if none answers there in time, or if its version does not support the request
 */
export function identifyProcess(path: string, asker: Asker): Promise<ProxyProcess> {
  return getFrom<ProxyProcess>(path, asker, "process", {});
}

/** Sends a request. The response is not validated, since both ends are the same program. */
async function getFrom<T>(path: string, asker: Asker, route: string, query: Record<string, string>): Promise<T> {
  const target = `/v1/${route}?${new URLSearchParams(query)}`;
  const { status, body } = await withinTime(path, asker, (signal) => request(path, target, signal));
  if (status === 200) return JSON.parse(body) as T;
  if (status === 400) {
    // Loaded late: a starting proxy only identifies the process behind its socket.
    const { QuestionError } = await import("../mod.ts");
    throw new QuestionError(body.trim());
  }
  if (status === 503) throw new Error(body.trim());
  throw new Error(`the proxy did not answer: ${status} ${body.trim()}`);
}

/** Settles like the attempt, unless the time is over or the asker ends it. */
async function withinTime<T>(
  path: string,
  { clock, signal, timeoutMs = LONGEST_ANSWER_MS }: Asker,
  attempt: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ending = new AbortController();
  const interrupt = () => ending.abort(signal?.reason);
  const cancel = clock.schedule(timeoutMs, () => ending.abort(new SilentProxyError(silence(path, timeoutMs))));
  signal?.addEventListener("abort", interrupt, { once: true });
  if (signal?.aborted) interrupt();
  try {
    return await unlessAborted(attempt(ending.signal), ending.signal);
  } finally {
    cancel();
    signal?.removeEventListener("abort", interrupt);
  }
}

function silence(path: string, timeoutMs: number): string {
  let pid = "";
  try {
    pid = ` (pid ${Number(Deno.readTextFileSync(pidFileOf(path)))})`;
  } catch {
    // The proxy could not write it.
  }
  return `the proxy${pid} does not answer within ${timeoutMs / 1000} s: it is stopped or overloaded ` +
    "(look at its log and at the load of the node, or restart it)";
}

async function queryOf({ address, port, protocol, from }: Question): Promise<Record<string, string>> {
  const { endpointText } = await import("../mod.ts");
  return { to: endpointText(address, port, protocol), ...(from === undefined ? {} : { from }) };
}

/** Throws if nothing accepts a connection at `path`. */
async function requireListener(path: string): Promise<void> {
  try {
    (await Deno.connect({ transport: "unix", path })).close();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) {
      throw new NoProxyError(
        `there is no control socket at ${path}: no proxy runs on this node, or it has another --control-socket`,
      );
    }
    if (error instanceof Deno.errors.ConnectionRefused) {
      throw new NoProxyError(
        `no proxy listens on the control socket ${path} (its proxy has exited; the rules that it wrote stay in effect)`,
      );
    }
    if (error instanceof Deno.errors.PermissionDenied) {
      throw new Error(`cannot open the control socket ${path}: ${errorText(error)} (run as the proxy's user)`);
    }
    throw new Error(`cannot use the control socket ${path}: ${errorText(error)}`, { cause: error });
  }
}

/** Throws if the proxy says that it serves another network namespace than the asker's. */
async function requireNamespace(path: string, asker: Asker): Promise<void> {
  if (asker.networkNamespace === undefined) return;
  const other = await identifyProcess(path, asker).catch((error) => {
    if (error instanceof SilentProxyError) throw error;
    return undefined;
  });
  if (other?.networkNamespace === undefined || other.networkNamespace === asker.networkNamespace) return;
  throw new NoProxyError(
    `the proxy on the control socket ${path} (pid ${other.pid}) serves another network namespace than this one ` +
      `(--control-socket ${path} asks it all the same)`,
  );
}

/**
 * A response with any status, read to its end. Without Deno's fetch, whose client needs the certificates of the system even for
 * a unix socket. A response of HTTP/1.0 ends with its connection.
 */
async function request(
  path: string,
  target: string,
  signal: AbortSignal,
): Promise<{ readonly status: number; readonly body: string }> {
  try {
    using connection = await Deno.connect({ transport: "unix", path });
    const close = () => connection[Symbol.dispose]();
    signal.addEventListener("abort", close, { once: true });
    await connection.write(new TextEncoder().encode(`GET ${target} HTTP/1.0\r\nHost: sluice\r\n\r\n`));
    const bytes = new Uint8Array(await new Response(connection.readable).arrayBuffer());
    const text = new TextDecoder().decode(bytes), headLength = text.indexOf("\r\n\r\n") + 4;
    const head = text.slice(0, headLength);
    const status = /^HTTP\/1\.[01] (\d{3}) /.exec(head)?.[1];
    const length = Number(/^content-length: (\d+)\r$/im.exec(head)?.[1] ?? bytes.length - headLength);
    if (status === undefined || bytes.length < headLength + length) throw new Error("its answer is incomplete");
    return { status: Number(status), body: text.slice(headLength) };
  } catch (error) {
    throw new Error("the proxy did not answer", { cause: error });
  }
}
