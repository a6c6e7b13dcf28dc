import type { Http2Session } from "node:http2";

const waiting = new WeakMap<Http2Session, Set<() => void>>();

/**
 * Calls `then` when the client's window for the connection is open. Before Deno 2.9, node:http2 reports a write as done while
 * its bytes still wait for the window, so that a snapshot would wait in memory for each slow reader.
 */
export function whenWindowIsOpen(session: Http2Session | undefined, then: () => void): void {
  if (session === undefined || session.destroyed || (session.state.remoteWindowSize ?? 1) > 0) return then();
  const own = waiting.get(session) ?? new Set();
  waiting.set(session, own.add(then));
}

/** The client has enlarged a window of this connection. */
export function windowMoved(session: Http2Session): void {
  const woken = waiting.get(session);
  if (woken === undefined) return;
  waiting.delete(session);
  for (const then of woken) then();
}
