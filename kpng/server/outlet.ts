import type { ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { FRAME, type FrameHeader, settingsOf, windowIncrementOf } from "../transport/mod.ts";

/**
 * Sends to one client no more than it can receive now. node:http2 does not report how much it buffers: before Deno 2.9, it
 * reports a write as done while its bytes wait for the client's windows, and in every version while they wait in the socket. So
 * the windows are counted here (RFC 9113 section 5.2), and nothing is handed over that does not fit, or while the socket has
 * too much.
 */
export interface Outlet {
  /** Takes a SETTINGS or WINDOW_UPDATE frame of the client. */
  received(frame: FrameHeader, payload: Uint8Array): void;
  /** Follows the window of a new stream until it closes, and returns the function that writes to it, once at a time. */
  open(stream: ServerHttp2Stream): Send;
}

/** Calls `then` when all bytes are handed over; never if the stream closes before. */
export type Send = (bytes: Uint8Array, then: () => void) => void;

/** The windows of a connection and its streams at the start. */
const DEFAULT_WINDOW_BYTES = 65_535;
/**
 * The bytes written at a time: node:http2 keeps a buffer of this size for each open stream. Halving it saves little memory, but
 * serving a joining node with HTTP/2's default window takes 50% more CPU.
 */
const PIECE_BYTES = 8 * 1024;
/** Streams that are not open yet and whose windows are counted: frames can arrive in the same packet as the call. */
const MOST_EARLY = 100;

/** A write that is not complete. */
interface Write {
  readonly ownBytes: number;
  readonly resume: () => void;
}

/** The outlet of a new connection. */
export function createOutlet({ socket, queueBytes, onUnread }: {
  /** The socket that the session writes to. */
  readonly socket: Pick<Socket, "writableLength" | "on">;
  /** The bytes in the socket above which nothing is handed over. */
  readonly queueBytes: number;
  /** Takes the bytes that wait for the client, other than those in memory that several clients share. */
  readonly onUnread: (bytes: number) => void;
}): Outlet {
  let initialBytes = DEFAULT_WINDOW_BYTES;
  let connectionBytes = DEFAULT_WINDOW_BYTES;
  // By stream: what its window differs from the initial one.
  const open = new Map<number, number>();
  const early = new Map<number, number>();
  const waiting = new Map<number, Write>();
  let waitingBytes = 0;

  const report = () => onUnread(waitingBytes + socket.writableLength);

  const roomOf = (id: number) =>
    socket.writableLength > queueBytes ? 0 : Math.min(PIECE_BYTES, connectionBytes, initialBytes + open.get(id)!);

  const takeOut = (id: number): Write | undefined => {
    const write = waiting.get(id);
    if (write !== undefined) waitingBytes -= write.ownBytes;
    waiting.delete(id);
    return write;
  };

  const resumeAll = () => {
    for (const id of [...waiting.keys()]) takeOut(id)?.resume();
    report();
  };

  const enlarge = (id: number, bytes: number) => {
    const group = open.has(id) ? open : early;
    if (group === open || early.size < MOST_EARLY) group.set(id, (group.get(id) ?? 0) + bytes);
  };

  socket.on("drain", resumeAll);

  return {
    received({ type, stream: id }, payload) {
      if (type === FRAME.settings) {
        initialBytes = settingsOf(payload).initialWindowBytes ?? initialBytes;
        resumeAll();
      } else if (id === 0) {
        connectionBytes += windowIncrementOf(payload);
        if (waiting.size > 0) resumeAll();
      } else {
        enlarge(id, windowIncrementOf(payload));
        takeOut(id)?.resume();
      }
    },
    open(stream) {
      const id = stream.id!;
      open.set(id, early.get(id) ?? 0);
      // Streams with lower numbers that are not open were refused.
      for (const known of early.keys()) if (known <= id) early.delete(known);
      stream.once("close", () => {
        open.delete(id);
        takeOut(id);
        report();
      });
      return (bytes, then) => {
        const ownBytes = bytes.buffer instanceof SharedArrayBuffer ? 0 : bytes.length;
        let sent = 0;
        const resume = () => {
          if (!open.has(id)) return;
          const room = roomOf(id);
          if (room <= 0) {
            waiting.set(id, { ownBytes, resume });
            waitingBytes += ownBytes;
            return report();
          }
          const piece = sent === 0 && bytes.length <= room ? bytes : bytes.subarray(sent, sent + room);
          sent += piece.length;
          connectionBytes -= piece.length;
          open.set(id, open.get(id)! - piece.length);
          stream.write(piece, (error) => {
            if (error) return;
            report();
            if (sent < bytes.length) resume();
            else then();
          });
        };
        resume();
      };
    },
  };
}

/** The bytes that wait for the clients of an isolate. */
export interface SendBudget {
  /** Sets the bytes of a client, which is named by the function that disconnects it. */
  set(disconnect: () => void, bytes: number): void;
}

/** A budget of this many bytes; above it, the clients that have not read for longest are disconnected. */
export function createSendBudget(limitBytes: number): SendBudget {
  // In the order in which they stopped reading.
  const unread = new Map<() => void, number>();
  let totalBytes = 0;

  const set = (disconnect: () => void, bytes: number) => {
    const before = unread.get(disconnect) ?? 0;
    if (bytes === before) return;
    totalBytes += bytes - before;
    if (bytes === 0) unread.delete(disconnect);
    else unread.set(disconnect, bytes);
  };

  return {
    set(disconnect, bytes) {
      set(disconnect, bytes);
      for (const oldest of unread.keys()) {
        if (totalBytes <= limitBytes) return;
        set(oldest, 0);
        oldest();
      }
    },
  };
}
