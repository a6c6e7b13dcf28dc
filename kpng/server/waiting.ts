/**
 * Waits until its function in `waiting` is called, which takes it out. Rejects with the signal's reason. A Set keeps the order of
 * arrival, and waiters can leave.
 */
export function waitAmong(waiting: Set<() => void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.reject(signal.reason);
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      waiting.delete(wake);
      reject(signal.reason);
    };
    const wake = () => {
      waiting.delete(wake);
      signal.removeEventListener("abort", onAbort);
      resolve();
    };
    waiting.add(wake);
    signal.addEventListener("abort", onAbort, { once: true });
  });
}
