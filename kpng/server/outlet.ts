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
type Send = (bytes: Uint8Array, then: () => void) => void;

/** The windows of a connection and its streams at the start. */
const DEFAULT_WINDOW_BYTES = 65_535;
/**
 * The bytes written at a time: node:http2 keeps a buffer of this size for each open stream. Halving it saves little memory, but
 * serving a joining node with HTTP/2's default window takes 50% more CPU.
 */
const PIECE_BYTES = 8 * 1024;
/** Streams that are not open yet and whose windows are counted: frames can arrive in the same packet as the call. */
const MOST_EARLY = 100;

interface Write {
  readonly ownBytes: number;
  readonly resume: () => void;
}

interface OutletOptions {
  /** The socket that the session writes to. */
  readonly socket: Pick<Socket, "writableLength" | "on">;
  /** The bytes in the socket above which nothing is handed over. */
  readonly queueBytes: number;
  /** Takes the bytes that wait for the client, other than those in memory that several clients share. */
  readonly onUnread: (bytes: number) => void;
}

/** The windows of a connection and its streams, and the writes that wait for them by stream. */
interface Windows extends OutletOptions {
  initialBytes: number;
  connectionBytes: number;
  /** By stream: what its window differs from the initial one. */
  readonly open: Map<number, number>;
  readonly early: Map<number, number>;
  readonly waiting: Map<number, Write>;
  waitingBytes: number;
}

/** The outlet of a new connection. */
export function createOutlet(options: OutletOptions): Outlet {
  const windows: Windows = {
    ...options,
    ...{ initialBytes: DEFAULT_WINDOW_BYTES, connectionBytes: DEFAULT_WINDOW_BYTES },
    ...{ open: new Map(), early: new Map(), waiting: new Map(), waitingBytes: 0 },
  };
  const { open, early, waiting } = windows;
  options.socket.on("drain", () => resumeAll(windows));

  return {
    received({ type, stream: id }, payload) {
      if (type === FRAME.settings) {
        windows.initialBytes = settingsOf(payload).initialWindowBytes ?? windows.initialBytes;
        resumeAll(windows);
      } else if (id === 0) {
        windows.connectionBytes += windowIncrementOf(payload);
        if (waiting.size > 0) resumeAll(windows);
      } else {
        enlarge(windows, id, windowIncrementOf(payload));
        takeOut(windows, id)?.resume();
      }
    },
    open(stream) {
      const id = stream.id!;
      open.set(id, early.get(id) ?? 0);
      // Streams with lower numbers that are not open were refused.
      for (const known of early.keys()) if (known <= id) early.delete(known);
      stream.once("close", () => {
        open.delete(id);
        takeOut(windows, id);
        report(windows);
      });
      return (bytes, then) => write(windows, stream, bytes, then);
    },
  };
}

function write(windows: Windows, stream: ServerHttp2Stream, bytes: Uint8Array, then: () => void): void {
  const { open, waiting } = windows, id = stream.id!;
  const ownBytes = bytes.buffer instanceof SharedArrayBuffer ? 0 : bytes.length;
  let sent = 0;
  const resume = () => {
    if (!open.has(id)) return;
    const room = roomOf(windows, id);
    if (room <= 0) {
      waiting.set(id, { ownBytes, resume });
      windows.waitingBytes += ownBytes;
      return report(windows);
    }
    const piece = sent === 0 && bytes.length <= room ? bytes : bytes.subarray(sent, sent + room);
    sent += piece.length;
    windows.connectionBytes -= piece.length;
    open.set(id, open.get(id)! - piece.length);
    stream.write(piece, (error) => {
      if (error) return;
      report(windows);
      if (sent < bytes.length) resume();
      else then();
    });
  };
  resume();
}

function report({ onUnread, waitingBytes, socket }: Windows): void {
  onUnread(waitingBytes + socket.writableLength);
}

function roomOf({ socket, queueBytes, connectionBytes, initialBytes, open }: Windows, id: number): number {
  return socket.writableLength > queueBytes ? 0 : Math.min(PIECE_BYTES, connectionBytes, initialBytes + open.get(id)!);
}

function takeOut(windows: Windows, id: number): Write | undefined {
  const found = windows.waiting.get(id);
  if (found !== undefined) windows.waitingBytes -= found.ownBytes;
  windows.waiting.delete(id);
  return found;
}

function resumeAll(windows: Windows): void {
  for (const id of [...windows.waiting.keys()]) takeOut(windows, id)?.resume();
  report(windows);
}

function enlarge({ open, early }: Windows, id: number, bytes: number): void {
  const group = open.has(id) ? open : early;
  if (group === open || early.size < MOST_EARLY) group.set(id, (group.get(id) ?? 0) + bytes);
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
