import type { Http2SecureServer, Http2Server, ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import {
  createClientFrameCheck,
  createHttp2FrameReader,
  createQuota,
  ERROR_CODE,
  FRAME,
  needsAnswer,
  PREFACE_BYTES,
  watchLiveness,
} from "../transport/mod.ts";
import type { ClientRule, ServerContext, ServerSettings } from "./context.ts";
import { type ClosureReason, countClosed } from "./metrics.ts";
import { createOutlet, createSendBudget, type Outlet, type SendBudget } from "./outlet.ts";

/** The connections of a server. */
interface Connections {
  /** The outlet of a connection; undefined for one that was not admitted. */
  outletOf(session: ServerHttp2Session | undefined): Outlet | undefined;
  /** Admits no client that another CA has verified before now; connections that are admitted stay. */
  authorityChanged(): void;
  /** Announces the end to all of them, and closes them when their calls have ended, or after `lingerMs`. */
  close(): void;
}

type Close = (reason: ClosureReason, code: number) => void;

type CountClosed = (reason: ClosureReason, address: string | undefined) => void;

interface Connection {
  readonly socket: Socket;
  readonly address: string;
  readonly cancelHandshake: () => void;
  /** The verified certificates of the CA that its handshake uses. */
  readonly verified: Set<string>;
}

/**
 * Admits connections to a server within its limits, and guards each one. At a limit, the oldest connection without a stream is
 * closed for the new one, so that clients that call immediately are served regardless of the number of idle connections.
 * With a CA, the handshake verifies the client's certificate, which then must conform to the rule for clients.
 */
export function admitConnections(
  server: Http2Server | Http2SecureServer,
  { tls, clients: rule, ...context }: ServerSettings & ServerContext,
): Connections {
  const { limits, clock } = context;
  const isSecure = tls !== undefined, verifiesClients = tls?.ca !== undefined;
  const closed: CountClosed = (reason, address) => countClosed(reason, address, context);
  const sessions = new Map<ServerHttp2Session, Outlet>();
  const budget = createSendBudget(limits.unreadBytes);
  const { admit, admitted, connectionOf, setIdle } = createAdmission(isSecure, closed, context);
  let arriving: Socket | undefined;
  // The fingerprints of certificates that full handshakes have verified with the current CA.
  let verified = new Set<string>();

  // node:http2 creates the session in its own listener of the same event, and does not expose its socket.
  const onArrival = (socket: Socket) => {
    arriving = socket;
  };
  server.prependListener(isSecure ? "secureConnection" : "connection", onArrival);
  server.prependListener("connection", (socket: Socket) => admit(socket, verified));
  server.on("session", (session: ServerHttp2Session) => {
    const socket = arriving!;
    const connection = connectionOf(socket);
    connection?.cancelHandshake();
    // A handshake uses the CA of the connection's arrival.
    const isCurrent = connection?.verified === verified;
    if (verifiesClients && !(isCurrent && isVerified(verified, socket as TLSSocket, clock.now()))) {
      closed("client certificate that is no longer valid", socket.remoteAddress);
      session.destroy();
      return;
    }
    if (rule !== undefined && !isPermitted(socket as TLSSocket, rule)) {
      closed("certificate of a client that is not let in", socket.remoteAddress);
      session.destroy();
      return;
    }
    const onIdle = (isIdle: boolean) => {
      if (connection !== undefined && !connection.socket.destroyed) setIdle(connection, isIdle);
    };
    sessions.set(session, guardConnection(session, socket, budget, onIdle, context));
    session.on("close", () => sessions.delete(session));
  });
  server.on("unknownProtocol", (socket: Socket) => {
    closed("no HTTP/2 over TLS", socket.remoteAddress);
    socket.destroy();
  });

  return {
    outletOf: (session) => session && sessions.get(session),
    authorityChanged() {
      verified = new Set();
    },
    close() {
      // Sends GOAWAY, and waits for the session's streams.
      for (const session of sessions.keys()) session.close();
      const cancel = clock.schedule(limits.lingerMs, () => {
        for (const session of sessions.keys()) session.destroy();
        for (const { socket } of admitted()) socket.destroy();
      });
      server.once("close", cancel);
    },
  };
}

/** Admits sockets within the limits. At a limit, the oldest idle connection makes room. */
function createAdmission(isSecure: boolean, closed: CountClosed, { limits, clock, tally }: ServerContext) {
  // Those without a stream, oldest first.
  const idle = new Set<Connection>();
  // By the client's address and port with TLS, where the session's socket differs from the accepted one; else by
  // socket.
  const connections = new Map<Socket | string, Connection>();
  const keyOf = (socket: Socket) => isSecure ? `${socket.remoteAddress} ${socket.remotePort}` : socket;

  const setIdle = (connection: Connection, isIdle: boolean) => {
    if (isIdle) idle.add(connection);
    else idle.delete(connection);
  };

  /** Closes this idle connection, or else the new one. Returns whether the new one may stay. */
  const makeRoom = (oldest: Connection | undefined, reason: ClosureReason, newcomer: Socket): boolean => {
    const victim = oldest?.socket ?? newcomer;
    closed(reason, victim.remoteAddress);
    victim.destroy();
    if (oldest !== undefined) idle.delete(oldest);
    return oldest !== undefined;
  };

  const admit = (socket: Socket, verified: Set<string>): void => {
    // Outside of its session's lifetime, a socket has no other error listener.
    socket.on("error", () => {});
    const address = socket.remoteAddress ?? "";
    if (tally.ofAddress(address) >= limits.connectionsPerAddress) {
      const own = idle.values().find((connection) => connection.address === address);
      if (!makeRoom(own, "too many connections from one address", socket)) return;
    } else if (tally.total("connections") >= limits.connections) {
      if (!makeRoom(idle.values().next().value, "too many connections", socket)) return;
    }
    const closeLate = () => {
      closed("no TLS handshake", address);
      socket.destroy();
    };
    const cancelHandshake = isSecure ? clock.schedule(limits.handshakeMs, closeLate) : () => {};
    const connection = { socket, address, cancelHandshake, verified };
    const key = keyOf(socket);
    connections.set(key, connection);
    tally.add("connections", 1);
    tally.addAddress(address, 1);
    idle.add(connection);
    socket.once("close", () => {
      cancelHandshake();
      idle.delete(connection);
      if (connections.get(key) === connection) connections.delete(key);
      tally.add("connections", -1);
      tally.addAddress(address, -1);
    });
  };

  return {
    admit,
    admitted: () => connections.values(),
    connectionOf: (socket: Socket) => connections.get(keyOf(socket)),
    setIdle,
  };
}

// Deno (2.9) resumes sessions without a look at the CA and at the time.
function isVerified(verified: Set<string>, socket: TLSSocket, nowMs: number): boolean {
  const { fingerprint256, valid_to: validTo } = socket.getPeerCertificate();
  if (!socket.isSessionReused()) verified.add(fingerprint256);
  else if (Date.parse(validTo) < nowMs) return false;
  return verified.has(fingerprint256);
}

/** Whether the client's certificate, which the handshake has verified, has an accepted name. */
function isPermitted(socket: TLSSocket, { names, organization }: ClientRule): boolean {
  const { O, CN } = socket.getPeerCertificate().subject ?? {};
  const isOfOrganization = organization === undefined || [O].flat().includes(organization);
  return isOfOrganization && [CN].flat().some((name) => name !== undefined && names.includes(name));
}

const NOTHING = new Uint8Array();

/**
 * Closes a connection that does not start HTTP/2, has no stream for too long, opens or resets streams or sends frames faster than
 * any watcher would, leaves too much unread, or whose peer is dead. Returns its outlet. `socket` is read by the session;
 * `onIdle` is called when the connection has its first stream, and when it has none again.
 */
function guardConnection(
  session: ServerHttp2Session,
  socket: Socket,
  budget: SendBudget,
  onIdle: (isIdle: boolean) => void,
  context: ServerContext,
): Outlet {
  const { limits, clock } = context;
  const quota = (count: number) => createQuota(count, limits.windowMs, clock);
  const opened = quota(limits.streamsPerWindow);
  const controlFrames = quota(limits.controlFramesPerWindow);
  const frames = quota(limits.framesPerWindow);
  const problemOf = createClientFrameCheck();
  const address = socket.remoteAddress;
  let isClosing = false;
  let cancelLinger = () => {};

  const close: Close = (reason, code) => {
    if (isClosing) return;
    isClosing = true;
    countClosed(reason, address, context);
    session.destroy(new Error(`closed by the server: ${reason}`), code);
    // The session waits for its last frame to be written, which may never happen.
    cancelLinger = clock.schedule(limits.lingerMs, () => socket.destroy());
  };

  const disconnect = () => {
    close("too much unread data", ERROR_CODE.ENHANCE_YOUR_CALM);
    socket.destroy();
  };
  const outlet = createOutlet({
    socket,
    queueBytes: limits.unreadBytesPerConnection,
    onUnread: (bytes) => budget.set(disconnect, socket.destroyed ? 0 : bytes),
  });
  socket.once("close", () => budget.set(disconnect, 0));

  // Before the session's own listener, which ignores data after the session is destroyed: node:http2 creates objects of about
  // 10 kB for every stream in a packet before it emits the first one, and broken frames have crashed it with an uncatchable
  // error, an assertion or a segmentation fault (Deno 2.9).
  socket.prependListener(
    "data",
    createHttp2FrameReader(PREFACE_BYTES, (frame) => {
      const { type } = frame;
      liveness.received();
      if (problemOf(frame) !== undefined) close("broken frames", ERROR_CODE.PROTOCOL_ERROR);
      // nghttp2 aborts the process on frames after a GOAWAY.
      else if (type === FRAME.goaway) close("the client left", ERROR_CODE.NO_ERROR);
      else if (!frames()) close("too many frames", ERROR_CODE.ENHANCE_YOUR_CALM);
      else if (type === FRAME.headers && !opened()) close("streams opened too fast", ERROR_CODE.ENHANCE_YOUR_CALM);
      else if (needsAnswer(type) && !controlFrames()) {
        close("PING or SETTINGS flood", ERROR_CODE.ENHANCE_YOUR_CALM);
      }
    }, (frame, payload) => {
      if (!isClosing) outlet.received(frame, payload);
    }),
  );

  const cancelHandshake = clock.schedule(limits.handshakeMs, () => close("no HTTP/2 settings", ERROR_CODE.NO_ERROR));
  const liveness = watchLiveness({
    clock,
    limits,
    probe: () => requestAnswer(session, socket),
    onSilent: () => {
      close("no sign of life", ERROR_CODE.NO_ERROR);
      // The peer is dead: do not linger.
      socket.destroy();
    },
  });

  session.on("error", () => {});
  session.once("remoteSettings", cancelHandshake);
  session.on("close", () => {
    cancelHandshake();
    cancelLinger();
    liveness.stop();
  });
  watchStreams(session, close, onIdle, context);
  return outlet;
}

/** Closes a connection that has no stream for too long, or whose streams are reset too fast. */
function watchStreams(
  session: ServerHttp2Session,
  close: Close,
  onIdle: (isIdle: boolean) => void,
  { limits, clock }: ServerContext,
): void {
  const resets = createQuota(limits.resetsPerWindow, limits.windowMs, clock);
  const startIdle = () => clock.schedule(limits.idleMs, () => close("no call", ERROR_CODE.NO_ERROR));
  let open = 0;
  let cancelIdle = startIdle();
  session.on("stream", (stream) => {
    if (++open === 1) {
      cancelIdle();
      onIdle(false);
    }
    stream.on("close", () => {
      if (stream.rstCode !== ERROR_CODE.NO_ERROR && !resets()) {
        close("streams reset too fast", ERROR_CODE.ENHANCE_YOUR_CALM);
      }
      if (--open > 0 || session.destroyed) return;
      cancelIdle = startIdle();
      onIdle(true);
    });
  });
  session.on("close", () => cancelIdle());
}

/**
 * Sends empty SETTINGS, which every client must acknowledge (RFC 9113 section 6.5.3), unless the last ones are not acknowledged
 * yet. PING is not an alternative: Deno 2.7 sends it only with the next frame of a call, and keeps its callback until the
 * connection ends.
 */
function requestAnswer(session: ServerHttp2Session, socket: Socket): void {
  // A broken session is destroyed before its socket, which may still have data to write.
  if (session.destroyed || session.pendingSettingsAck) return;
  session.settings({});
  // Deno sends the frame of an idle session only after it has read something.
  socket.emit("data", NOTHING);
}
