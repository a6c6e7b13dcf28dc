/**
 * The gRPC server of `sluice serve`, which relays one source to any number of nodes.
 *
 * In: a store. Out: KPNG's operations to each client. May touch: listening sockets.
 */
export { createAnswers } from "./answers.ts";
export { createSemaphore } from "./semaphore.ts";
export { startServing } from "./server.ts";
export { createChangeWaiters } from "./change_waiters.ts";
export { serveWatcher } from "./watcher.ts";
