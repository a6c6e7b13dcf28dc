/**
 * Web Workers: one per IP family for the kernel side, one per family that carries connections if the mode needs a relay, one
 * that runs credential plugins, one that asks the container runtime, some that write to the watchers of `sluice serve`. Each
 * has no more permissions than it needs.
 *
 *   start.ts            starts the families' workers
 *   worker_pool.ts      the workers of both families, each of which can start the other's successor
 *   supervise.ts        replaces a worker that dies or hangs
 *   watched_worker.ts   pings a worker
 *   memory_watch.ts     detects workers that use too much memory
 *   web_worker.ts       a Web Worker with minimal permissions
 *   protocol.ts         the messages of a family's worker
 *   checked_message.ts  validates messages
 *   questions.ts        questions to a worker, and their answers
 *   family.ts           the entry point of a family's worker
 *   family_code.ts      its code and permitted tools
 *   main_connection.ts  its connection to the main isolate
 *   sync_loop.ts        setup, sync, retry and comparison
 *   due_timer.ts        a timer that stays due
 *   problem_log.ts      logs each problem once
 *   relays.ts           adds relays to the families' workers
 *   relay_link.ts       sends each delta to the relay, and then with its ports to the family's worker
 *   relay_worker.ts     keeps a family's relay worker running
 *   relay_targets.ts    the endpoints that a relay must not connect to
 *   relay.ts            the entry point of that worker
 *   relay_protocol.ts   the messages of that worker
 *   start_serving.ts    starts the workers of `sluice serve`
 *   serve.ts            the entry point of such a worker
 *   start_plugin.ts     starts the worker that runs a credential plugin
 *   plugin.ts           the entry point of that worker
 *   plugin_protocol.ts  the messages of that worker
 *   start_runtime.ts    starts the worker that asks the container runtime for its pods
 *   runtime.ts          the entry point of that worker
 *
 * In: deltas and questions as messages, every field checked. Out: reports. May run: the tools of backends/contract.
 */
export { relaysOnDemand, startFamilyWorkers } from "./start.ts";
export { startRuntimeWatch } from "./start_runtime.ts";
export { defaultServingWorkers, servingWorkers } from "./start_serving.ts";
export { startHookWorker, startPluginWorker } from "./start_plugin.ts";
