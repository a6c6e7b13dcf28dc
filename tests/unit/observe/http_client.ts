import assert from "node:assert/strict";
import { settled } from "../../fakes/clock.ts";

/** A response, read until its connection closes. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/** Sends `text` to `address:port` and reads until the server closes. */
export async function send(address: string, text: string): Promise<string> {
  const connection = await connect(address);
  await connection.write(new TextEncoder().encode(text));
  const answer = await new Response(connection.readable).text();
  return answer;
}

/** Requests a path and parses the response. */
export async function ask(address: string, path = "/", method = "GET", accept?: string): Promise<RawAnswer> {
  const field = accept === undefined ? "" : `Accept: ${accept}\r\n`;
  const text = await send(address, `${method} ${path} HTTP/1.1\r\nHost: ${address}\r\n${field}\r\n`);
  const [head = "", body = ""] = text.split("\r\n\r\n", 2);
  const [statusLine = "", ...lines] = head.split("\r\n");
  const headers = lines.map((line) => line.split(": ", 2) as [string, string]);
  return { status: Number(statusLine.split(" ")[1]), headers: new Headers(headers), body };
}

/** A connection to `address:port` on which nothing has been sent yet. */
export function connect(address: string): Promise<Deno.TcpConn> {
  const [hostname, port] = address.split(":");
  return Deno.connect({ hostname, port: Number(port) });
}

/** Fails if `address:port` accepts connections. */
export async function isClosed(address: string): Promise<void> {
  // A closed port is released shortly afterwards, once its pending operations have ended.
  for (let turn = 0; turn < 100; turn++) {
    await settled();
    const outcome = await connect(address).then((connection) => connection.close(), (error: unknown) => error);
    if (outcome instanceof Deno.errors.ConnectionRefused) return;
    if (outcome !== undefined && !(outcome instanceof Deno.errors.ConnectionReset)) throw outcome;
  }
  assert.fail(`${address} accepts connections`);
}
