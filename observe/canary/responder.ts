import { canonicalAddress, joinHostPort } from "../../platform/mod.ts";

/** The endpoint of a canary. */
export interface Responder {
  /** Where it listens, as `address:port`. */
  readonly target: string;
  /** What it answers to every connection: random, so that no other program answers the same. */
  readonly nonce: string;
  close(): void;
}

/** Opens a TCP listener at an address; Deno.listen by default. */
export type ListenAt = (address: string) => Deno.TcpListener;

/**
 * Starts a responder at an address. It answers only clients that `isOwn` admits, since its port is reachable from other
 * hosts. Throws if it cannot listen.
 */
export function startResponder(
  address: string,
  isOwn: (client: string) => boolean,
  listen: ListenAt = (hostname) => Deno.listen({ hostname, port: 0 }),
): Responder {
  const listener = listen(address);
  const nonce = crypto.randomUUID();
  answerAll(listener, new TextEncoder().encode(nonce), isOwn);
  return {
    target: joinHostPort(address, listener.addr.port),
    nonce,
    close: () => listener.close(),
  };
}

async function answerAll(
  listener: Deno.TcpListener,
  answer: Uint8Array,
  isOwn: (client: string) => boolean,
): Promise<void> {
  for (;;) {
    let connection: Deno.TcpConn;
    try {
      connection = await listener.accept();
    } catch (error) {
      if (error instanceof Deno.errors.BadResource || error instanceof Deno.errors.Interrupted) return;
      // A client that is gone already, or a lack of descriptors: the next try fails and says so.
      continue;
    }
    const { hostname } = connection.remoteAddr;
    // The answer fits into the socket's buffer.
    if (isOwn(canonicalAddress(hostname) ?? hostname)) await connection.write(answer).catch(() => 0);
    connection.close();
  }
}
