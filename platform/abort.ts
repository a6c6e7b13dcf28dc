/**
 * Returns a controller that is also aborted by each of these signals, with its reason. Replaces AbortSignal.any, whose
 * result Deno 2.7 garbage-collects together with its listeners (2.9 does not).
 */
export function abortedBy(...signals: readonly (AbortSignal | undefined)[]): AbortController {
  const controller = new AbortController();
  for (const signal of signals) {
    signal?.addEventListener("abort", () => controller.abort(signal.reason), { once: true });
    if (signal?.aborted) controller.abort(signal.reason);
  }
  return controller;
}

/** Settles like `promise`, or rejects with the signal's reason if that is aborted first. Does not cancel the operation. */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
