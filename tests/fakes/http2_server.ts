import { createServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";

/** A server of HTTP/2 without TLS. */
export interface Http2TestServer {
  /** Its port of 127.0.0.1; 0 on a unix socket. */
  readonly port: number;
  /** Resolves when it has no connection. */
  alone(): Promise<void>;
  /** Destroys all connections. */
  drop(): void;
  /** Destroys all connections, and listens no longer. */
  close(): Promise<void>;
}

/** Starts a server at a port of 127.0.0.1, 0 for a free one, or at the path of a unix socket; `onStream` serves each stream. */
export async function startHttp2Server(
  where: number | string,
  onStream: (stream: ServerHttp2Stream, headers: Readonly<Record<string, unknown>>) => void,
): Promise<Http2TestServer> {
  const server = createServer();
  const sessions = new Set<{ destroy(): void }>();
  let onLeft = () => {};
  server.on("session", (session) => {
    session.on("error", () => {});
    sessions.add(session);
    session.on("close", () => {
      sessions.delete(session);
      onLeft();
    });
  });
  server.on("stream", (stream, headers) => {
    stream.on("error", () => {});
    onStream(stream, headers);
  });
  await new Promise<void>((resolve, reject) => {
    server.on("error", reject);
    if (typeof where === "string") server.listen(where, resolve);
    else server.listen(where, "127.0.0.1", resolve);
  });
  const drop = () => {
    for (const session of sessions) session.destroy();
  };
  return {
    port: typeof where === "string" ? 0 : (server.address() as AddressInfo).port,
    alone: () =>
      new Promise((resolve) => {
        onLeft = () => {
          if (sessions.size === 0) resolve();
        };
        onLeft();
      }),
    drop,
    close() {
      drop();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
