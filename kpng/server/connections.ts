import type { Http2SecureServer, Http2Server, ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import type { Clock } from "../../platform/mod.ts";
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
  readonly idle: Set<Connection>;
}

/** One connection that was admitted. */
interface Connection {
  readonly socket: Socket;
  readonly client: Client;
  readonly cancelHandshake: () => void;
}

/**
 * Admits connections to a server within its limits, and guards each one. At a limit, the oldest connection without a stream
 * gives way to the new one, so that whoever calls at once is served however many connections wait.
 */
export function admitConnections({ server, isSecure, limits, clock, closures }: ConnectionsOptions): Connections {
  const sessions = new Set<ServerHttp2Session>();
  const clients = new Map<string, Client>();
  const idle = new Set<Connection>();
  /** By what the accepted socket has in common with the one that a session reads, which is another one with TLS. */
  const connections = new Map<Socket | string, Connection>();
  const keyOf = (socket: Socket) => isSecure ? `${socket.remoteAddress} ${socket.remotePort}` : socket;
  let arriving: Socket | undefined;

  const admit = (socket: Socket) => {
    // A socket that fails before or after its session lives has nobody else to report to.
    socket.on("error", () => {});
    const address = socket.remoteAddress ?? "";
    const client = clients.get(address) ?? { count: 0, idle: new Set() };
    if (client.count >= limits.connectionsPerAddress) {
      if (!makeRoom(client.idle, "too many connections from one address", socket)) return;
    } else if (connections.size >= limits.connections && !makeRoom(idle, "too many connections", socket)) return;
    const closeLate = () => {
      closures.count("no TLS handshake", address);
      socket.destroy();
    };
    const cancelHandshake = isSecure ? clock.schedule(limits.handshakeMs, closeLate) : () => {};
    const connection = { socket, client, cancelHandshake };
    const key = keyOf(socket);
    connections.set(key, connection);
    clients.set(address, client);
    client.count++;
    setIdle(connection, true);
    socket.once("close", () => {
      cancelHandshake();
      setIdle(connection, false);
      if (connections.get(key) === connection) connections.delete(key);
      if (--client.count === 0) clients.delete(address);
    });
  };

  /** Closes the oldest connection among these, or else the newcomer. Returns whether there is room for it now. */
  const makeRoom = (among: ReadonlySet<Connection>, reason: ClosureReason, newcomer: Socket): boolean => {
    const [oldest] = among;
    const closed = oldest?.socket ?? newcomer;
    closures.count(reason, closed.remoteAddress);
    closed.destroy();
    if (oldest === undefined) return false;
    setIdle(oldest, false);
    return true;
  };

  const setIdle = (connection: Connection, isIdle: boolean) => {
    for (const set of [idle, connection.client.idle]) {
      if (isIdle) set.add(connection);
      else set.delete(connection);
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
    const connection = connections.get(keyOf(socket));
    connection?.cancelHandshake();
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
    const onIdle = (isIdle: boolean) => {
      if (connection !== undefined && !connection.socket.destroyed) setIdle(connection, isIdle);
    };
    guardConnection({ session, socket, limits, clock, closures, onIdle });
  });
  server.on("unknownProtocol", (socket: Socket) => {
    closures.count("no HTTP/2 over TLS", socket.remoteAddress);
    socket.destroy();
  });

  return {
    count: () => connections.size,
    close() {
      for (const session of sessions) session.destroy();
      const cancel = clock.schedule(limits.lingerMs, () => {
        for (const { socket } of connections.values()) socket.destroy();
      });
      server.once("close", cancel);
    },
  };
}
