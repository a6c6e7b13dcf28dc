/** The entry of a worker of `sluice serve`, which may only use the network: it writes the state to its watchers. */
import { type FromServingWorker, serveAsWorker, type ToServingWorker } from "../kpng/server/mod.ts";
import { systemClock } from "../platform/mod.ts";

/** The global scope of a worker. The compiler's types describe the main isolate. */
interface WorkerScope {
  onmessage: ((event: MessageEvent<ToServingWorker>) => void) | null;
  postMessage(message: FromServingWorker): void;
}

const scope = globalThis as unknown as WorkerScope;
const take = serveAsWorker(systemClock, (message) => scope.postMessage(message));
scope.onmessage = ({ data }) => take(data);
