const listeners = new Set<(error: Error) => void>();

/**
 * In Deno 2.4, that a connection broke is said by nothing but a rejection that nobody can handle, which would end the
 * process: here it is told to everybody who listens, since it does not say whose connection it was. The returned function
 * ends the listening.
 */
export function hearEscapedErrors(listener: (error: Error) => void): () => void {
  if (listeners.size === 0) globalThis.addEventListener("unhandledrejection", onRejection);
  listeners.add(listener);
  // What a connection has still to say comes a little later than its end: the handler stays.
  return () => void listeners.delete(listener);
}

function onRejection(event: PromiseRejectionEvent): void {
  const { reason } = event;
  if (!(reason instanceof Error) || !/^\s*at .*\bnode:http2:/m.test(reason.stack ?? "")) return;
  event.preventDefault();
  // A TypeError is the runtime's own confusion about a stream that it has already taken apart.
  if (!(reason instanceof TypeError)) { for (const listener of listeners) listener(reason); }
}
