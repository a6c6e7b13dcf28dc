/** Asks a running proxy through its control socket. */
import { errorText } from "../../platform/mod.ts";
import type { Question } from "../mod.ts";
import type { ProxyProcess } from "./process.ts";
import type { ControlAnswers } from "./server.ts";

/** Nobody answers on the socket: there is none, or the proxy that made it is gone. */
export class NoProxyError extends Error {
  override readonly name = "NoProxyError";
}

/**
 * A proxy that answers on `path`. Its methods reject with what is wrong with the question, or with the answer.
 * @throws {NoProxyError} where nobody answers there
 */
export async function askProxy(path: string): Promise<ControlAnswers> {
  await requireListener(path);
  const get = <T>(route: string, query: Record<string, string> = {}) => getFrom<T>(path, route, query);
  return {
    explain: async (question) => await get("explain", await queryOf(question)),
    services: (search) => get("services", { search }),
    endpoints: (search) => get("endpoints", { search }),
    browse: (question) =>
      get("browse", Object.fromEntries(Object.entries(question).map(([name, value]) => [name, String(value)]))),
    state: (family) => get("state", { family }),
    status: () => get("status"),
  };
}

/**
 * The process that answers on `path`.
 * @throws where nobody answers there, or a version that does not know the question
 */
export function askProcess(path: string): Promise<ProxyProcess> {
  return getFrom<ProxyProcess>(path, "process", {});
}

/** What is asked for is what is answered with: both ends are of one program. */
async function getFrom<T>(path: string, route: string, query: Record<string, string>): Promise<T> {
  const { status, body } = await request(path, `/v1/${route}?${new URLSearchParams(query)}`);
  if (status === 200) return JSON.parse(body) as T;
  if (status === 400) {
    // A starting proxy asks which process holds its socket, and needs nothing else of the answers.
    const { QuestionError } = await import("../mod.ts");
    throw new QuestionError(body.trim());
  }
  throw new Error(`the proxy did not answer: ${status} ${body.trim()}`);
}

async function queryOf({ address, port, protocol, from }: Question): Promise<Record<string, string>> {
  const { endpointText } = await import("../mod.ts");
  return { to: endpointText(address, port, protocol), ...(from === undefined ? {} : { from }) };
}

/** Throws where nobody accepts a connection at `path`. */
async function requireListener(path: string): Promise<void> {
  try {
    (await Deno.connect({ transport: "unix", path })).close();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) throw new NoProxyError(`there is no control socket at ${path}`);
    if (error instanceof Deno.errors.ConnectionRefused) {
      throw new NoProxyError(`the proxy that made the control socket ${path} is gone`);
    }
    if (error instanceof Deno.errors.PermissionDenied) {
      throw new Error(`the control socket ${path} is open to the proxy's own user only: ${errorText(error)}`);
    }
    throw new Error(`the control socket ${path} cannot be used: ${errorText(error)}`, { cause: error });
  }
}

/**
 * The origin of requests. fetch leaves the socket out where NO_PROXY covers the host, as `*` covers every name; it covers no
 * address of the block that discards packets (RFC 6666).
 */
const ORIGIN = "http://[100::]";

/** An answer of any status, read to its end. */
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
