/** The client of a running proxy's control socket. */
import { errorText } from "../../platform/mod.ts";
import type { Question } from "../mod.ts";
import type { ProxyProcess } from "./process.ts";
import type { ControlAnswers } from "./server.ts";

/** No proxy answers on the socket: it does not exist, or the proxy that created it is gone. */
export class NoProxyError extends Error {
  override readonly name = "NoProxyError";
}

/**
 * Connects to the proxy that answers on `path`. The methods of the result reject if the question is malformed or the
 * proxy fails to answer it.
 * @throws {NoProxyError} if no proxy answers there
 */
export async function connectToProxy(path: string): Promise<ControlAnswers> {
  await requireListener(path);
  const get = <T>(route: string, query: Record<string, string> = {}) => getFrom<T>(path, route, query);
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
 * @throws if none answers there, or if its version does not support the request
 */
export function identifyProcess(path: string): Promise<ProxyProcess> {
  return getFrom<ProxyProcess>(path, "process", {});
}

/** Sends a request. The response is not validated, since both ends are the same program. */
async function getFrom<T>(path: string, route: string, query: Record<string, string>): Promise<T> {
  const { status, body } = await request(path, `/v1/${route}?${new URLSearchParams(query)}`);
  if (status === 200) return JSON.parse(body) as T;
  if (status === 400) {
    // Loaded late: a starting proxy only identifies the process behind its socket.
    const { QuestionError } = await import("../mod.ts");
    throw new QuestionError(body.trim());
  }
  throw new Error(`the proxy did not answer: ${status} ${body.trim()}`);
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
    if (error instanceof Deno.errors.NotFound) throw new NoProxyError(`there is no control socket at ${path}`);
    if (error instanceof Deno.errors.ConnectionRefused) {
      throw new NoProxyError(`no proxy listens on the control socket ${path} (its proxy has exited)`);
    }
    if (error instanceof Deno.errors.PermissionDenied) {
      throw new Error(`cannot open the control socket ${path}: ${errorText(error)} (run as the proxy's user)`);
    }
    throw new Error(`cannot use the control socket ${path}: ${errorText(error)}`, { cause: error });
  }
}

/**
 * The origin of requests. fetch bypasses the socket if NO_PROXY matches the host. `*` matches every name, but no
 * address of the discard-only block (RFC 6666).
 */
const ORIGIN = "http://[100::]";

/** A response with any status, read to its end. */
async function request(path: string, target: string): Promise<{ readonly status: number; readonly body: string }> {
  const client = Deno.createHttpClient({ proxy: { transport: "unix", path } });
  try {
    const answer = await fetch(`${ORIGIN}${target}`, { client });
    return { status: answer.status, body: await answer.text() };
  } catch (error) {
    throw new Error("the proxy did not answer", { cause: error });
  } finally {
    client.close();
  }
}
