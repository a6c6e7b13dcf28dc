/** Asks a running proxy through its control socket. */
import { errorText } from "../../platform/log.ts";
import { type Question, QuestionError } from "../answers/question.ts";
import { endpointText } from "../answers/frontend.ts";
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
  (await connect(path)).close();
  const get = <T>(route: string, query: Record<string, string> = {}) => getFrom<T>(path, route, query);
  return {
    explain: (question) => get("explain", queryOf(question)),
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
  return JSON.parse(await request(path, `/v1/${route}?${new URLSearchParams(query)}`)) as T;
}

function queryOf({ address, port, protocol, from }: Question): Record<string, string> {
  return { to: endpointText(address, port, protocol), ...(from === undefined ? {} : { from }) };
}

async function connect(path: string): Promise<Deno.Conn> {
  try {
    return await Deno.connect({ transport: "unix", path });
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

async function request(path: string, target: string): Promise<string> {
  const connection = await connect(path);
  try {
    const text = `GET ${target} HTTP/1.1\r\nHost: sluice\r\nConnection: close\r\n\r\n`;
    await new Response(text).body!.pipeTo(connection.writable, { preventClose: true });
    const answer = await new Response(connection.readable).text();
    return bodyOf(answer);
  } finally {
    try {
      connection.close();
    } catch {
      // Its end was read, which closed it.
    }
  }
}

function bodyOf(answer: string): string {
  const end = answer.indexOf("\r\n\r\n");
  const [, status] = /^HTTP\/1\.1 (\d+) /.exec(answer) ?? [];
  const body = answer.slice(end + 4);
  if (status === "200") return body;
  if (status === "400") throw new QuestionError(body.trim());
  throw new Error(`the proxy did not answer: ${status === undefined ? "it broke off" : `${status} ${body.trim()}`}`);
}
