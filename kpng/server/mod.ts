/**
 * The gRPC server of `sluice serve`, which relays one source to any number of nodes.
 *
 *   server.ts              starts the server, in this isolate or with workers
 *   isolate.ts             the server of one isolate
 *   serving_workers.ts     starts the workers, and others if they die
 *   answer_service.ts      answers the questions of a worker
 *   worker_protocol.ts     the messages between both sides
 *   serving_worker.ts      a worker's server
 *   worker_state.ts        the state of the main isolate, in a worker
 *   state.ts               the state that watchers receive
 *   tally.ts               counts in memory that isolates share
 *   figures.ts             the counts, for metrics
 *   listen.ts              starts the HTTP/2 server
 *   connections.ts         admits connections within the limits
 *   connection.ts          guards one connection
 *   calls.ts               dispatches calls to their methods
 *   call_headers.ts        accepts or refuses a call by its headers
 *   call.ts                carries out one call, and ends it with a status
 *   stream.ts              requests and answers of one stream
 *   watch_call.ts          the method Watch
 *   health.ts              health checks
 *   reflection.ts          server reflection
 *   watcher.ts             answers one watcher until it leaves
 *   answers.ts             snapshots and differences, shared by watchers
 *   local_snapshot.ts      snapshots of local states, with what nodes have in common
 *   change_waiters.ts      wakes watchers after changes
 *   waiting.ts             waits in order of arrival
 *   chunks.ts              operations in chunks
 *   window.ts              waits for the client's flow control
 *   deadline.ts            a deadline that is moved often
 *   traffic.ts             counts what was sent
 *   lag.ts                 measures the time to the last watcher
 *   semaphore.ts           limits concurrency
 *   limits.ts              the limits of a server
 *   closed_connections.ts  counts the connections that the server closed
 *
 * In: a store. Out: KPNG's operations to each client. May touch: listening sockets.
 */
export { createAnswers } from "./answers.ts";
export { createSemaphore } from "./semaphore.ts";
export type { ServingFigures } from "./figures.ts";
export { type Serving, type ServingOptions, startServing } from "./server.ts";
export { serveAsWorker } from "./serving_worker.ts";
export type { SpawnServing } from "./serving_workers.ts";
export type { FromServingWorker, ServingStart, ToServingWorker } from "./worker_protocol.ts";
export { createChangeWaiters } from "./change_waiters.ts";
export { serveWatcher } from "./watcher.ts";
