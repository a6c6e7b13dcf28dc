/** The entry of a worker of `sluice serve`, which may only use the network: it writes the state to its watchers. */
import { type FromServingWorker, serveAsWorker, type ToServingWorker } from "../kpng/server/mod.ts";
import { systemClock } from "../platform/mod.ts";
import { ownScope } from "./web_worker.ts";

const scope = ownScope<ToServingWorker, FromServingWorker>();
const take = serveAsWorker(systemClock, (message) => scope.postMessage(message));
scope.onmessage = ({ data }) => take(data);
