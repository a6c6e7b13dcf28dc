import type { Http2SecureServer, Http2Server, ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import type { Clock } from "../../platform/clock.ts";
import type { ClosureReason, Closures } from "./closures.ts";
import { guardConnection } from "./connection.ts";
import type { Limits } from "./limits.ts";

/** What the connections of a server need. */
export interface ConnectionsOptions {
  readonly server: Http2Server | Http2SecureServer;
  readonly isSecure: boolean;
  readonly limits: Limits;
  readonly clock: Clock;
  readonly closures: Closures;
}

/** The connections of a server. */
export interface Connections {
  /** How many there are, those without a handshake among them. */
  count(): number;
  /** Closes all of them, also those that do not read. */
  close(): void;
}

/** The connections of one address. */
interface Client {
  count: number;
  /** Those without a stream, the oldest first. */
  readonly idle: Set<Socket>;
}

/**
 * Admits connections to a server within its limits, and guards each one. At a limit, a connection without a stream gives way
 * to the new one, so that whoever calls at once is served however many connections wait.
 */
export function admitConnections({ server, isSecure, limits, clock, closures }: ConnectionsOptions): Connections {
  const sockets = new Set<Socket>();
  const sessions = new Set<ServerHttp2Session>();
  const idle = new Set<Socket>();
  const clients = new Map<string, Client>();
  /** The accepted socket under the one that a session reads, which is another one with TLS. */
  const accepted = new Map<Socket | string, Socket>();
  const keyOf = (socket: Socket) => isSecure ? `${socket.remoteAddress} ${socket.remotePort}` : socket;
  let arriving: Socket | undefined;

  const admit = (socket: Socket) => {
    // A socket that fails before or after its session lives has nobody else to report to.
    socket.on("error", () => {});
    const address = socket.remoteAddress ?? "";
    const client = clients.get(address) ?? { count: 0, idle: new Set() };
    if (client.count >= limits.connectionsPerAddress) {
      if (!makeRoom(client.idle, "too many connections from one address", socket)) return;
    } else if (sockets.size >= limits.connections && !makeRoom(idle, "too many connections", socket)) return;
    const key = keyOf(socket);
    sockets.add(socket);
    idle.add(socket);
    client.idle.add(socket);
    client.count++;
    clients.set(address, client);
    accepted.set(key, socket);
    socket.once("close", () => {
      sockets.delete(socket);
      idle.delete(socket);
      client.idle.delete(socket);
      if (accepted.get(key) === socket) accepted.delete(key);
      if (--client.count === 0) clients.delete(address);
    });
  };

  /** Closes the oldest connection among these, or else the newcomer. Returns whether there is room for it now. */
  const makeRoom = (among: ReadonlySet<Socket>, reason: ClosureReason, newcomer: Socket): boolean => {
    const [oldest] = among;
    const closed = oldest ?? newcomer;
    closures.count(reason, closed.remoteAddress);
    closed.destroy();
    if (oldest === undefined) return false;
    markIdle(oldest, false);
    return true;
  };

  const markIdle = (socket: Socket | undefined, isIdle: boolean) => {
    if (socket === undefined || !sockets.has(socket)) return;
    for (const set of [idle, clients.get(socket.remoteAddress ?? "")?.idle]) {
      if (isIdle) set?.add(socket);
      else set?.delete(socket);
    }
  };

  // node:http2 makes the session in its own listener of the same event, and does not hand out its socket.
  const onArrival = (socket: Socket) => {
    arriving = socket;
  };
  server.prependListener(isSecure ? "secureConnection" : "connection", onArrival);
  server.prependListener("connection", admit);
  server.on("session", (session: ServerHttp2Session) => {
    const socket = arriving!;
    const below = accepted.get(keyOf(socket));
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
    const onIdle = (isIdle: boolean) => markIdle(below, isIdle);
    guardConnection({ session, socket, limits, clock, closures, onIdle });
  });
  server.on("clientError", (error: Error & { readonly code?: string }, socket: Socket) => {
    if (error.code === "ERR_TLS_HANDSHAKE_TIMEOUT") closures.count("no TLS handshake", socket.remoteAddress);
    socket.destroy();
  });
  server.on("unknownProtocol", (socket: Socket) => {
    closures.count("no HTTP/2 over TLS", socket.remoteAddress);
    socket.destroy();
  });

  return {
    count: () => sockets.size,
    close() {
      for (const session of sessions) session.destroy();
      const cancel = clock.schedule(limits.lingerMs, () => {
        for (const socket of sockets) socket.destroy();
      });
      server.once("close", cancel);
    },
  };
}
