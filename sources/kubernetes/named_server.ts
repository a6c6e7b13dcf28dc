/** Loaded only for a kubeconfig with `tls-server-name`: Deno's fetch takes the name from the URL, `node:https` has an option. */
import { Agent, request as startRequest } from "node:https";
import type { IncomingMessage } from "node:http";
import { pipeline, Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import type { Credentials } from "./credentials.ts";
import type { HttpClient, HttpRequest } from "./http_client.ts";

/** Creates a client for a server whose certificate has the name in `serverName`, which the server is asked for (SNI). */
export function connectToNamed({ serverName, caCerts, certificate, key }: Credentials): HttpClient {
  const agent = new Agent({ keepAlive: true, servername: serverName, ca: caCerts, cert: certificate, key });
  return {
    send: (url, request) => send(url, request, agent),
    close() {
      agent.maxFreeSockets = 0;
      for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
    },
  };
}

function send(url: string, { method, headers, body, signal }: HttpRequest, agent: Agent): Promise<Response> {
  return new Promise((resolve, reject) => {
    // Unlike fetch, it neither asks for compressed answers nor decompresses them.
    const values = { ...valuesByName(headers), "accept-encoding": ["gzip"] };
    const options = { agent, method, headers: values, signal: signal ?? undefined };
    startRequest(url, options, (answer) => resolve(responseOf(answer))).on("error", reject).end(body);
  });
}

function responseOf(answer: IncomingMessage): Response {
  const { statusCode: status = 0, rawHeaders } = answer;
  const headers = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2) headers.append(rawHeaders[i]!, rawHeaders[i + 1]!);
  // A response without a body, by its status, cannot be constructed with one.
  if (status === 204 || status === 304) {
    answer.resume();
    return new Response(null, { status, headers });
  }
  const isCompressed = headers.get("content-encoding") === "gzip";
  // An error reaches the reader of the body.
  const content = isCompressed ? pipeline(answer, createGunzip(), () => {}) : answer;
  return new Response(Readable.toWeb(content) as ReadableStream<Uint8Array>, { status, headers });
}

function valuesByName(headers: HttpRequest["headers"]): Record<string, string[]> {
  const values: Record<string, string[]> = {};
  for (const [name, value] of headers) (values[name] ??= []).push(value);
  return values;
}
