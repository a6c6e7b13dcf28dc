/** The global scope of a worker, its connection to the isolate that has started it. */
interface WorkerScope<In, Out> {
  onmessage: ((event: MessageEvent<In>) => void) | null;
  postMessage(message: Out): void;
  close(): void;
}

/** The scope of this worker. The compiler's types describe the main isolate. */
export function ownScope<In, Out>(): WorkerScope<In, Out> {
  return globalThis as unknown as WorkerScope<In, Out>;
}
