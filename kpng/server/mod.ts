/**
 * `sluice serve`: one watcher of the API that feeds any number of nodes over gRPC.
 *
 * In: a store. Out: KPNG's operations to each client. May touch: listening sockets.
 */
export { createAnswers } from "./answers.ts";
export { createPlaces } from "./places.ts";
export { startServing } from "./server.ts";
export { createWakeups } from "./wakeups.ts";
export { serveWatcher } from "./watcher.ts";
