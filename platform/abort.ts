/**
 * A controller of its own that is also aborted by each of these signals, with their reason. Not AbortSignal.any: Deno 2.7
 * forgets what that makes, listeners and all, at the next garbage collection (2.9 does not).
 */
export function abortedBy(...signals: readonly (AbortSignal | undefined)[]): AbortController {
  const controller = new AbortController();
  for (const signal of signals) {
    signal?.addEventListener("abort", () => controller.abort(signal.reason), { once: true });
    if (signal?.aborted) controller.abort(signal.reason);
  }
  return controller;
}
