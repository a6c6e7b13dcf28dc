/**
 * Web Workers: one per IP family for the kernel side, one per family that carries connections if the mode needs a relay, one
 * that runs credential plugins, one that asks the container runtime, some that write to the watchers of `sluice serve`. Each
 * has no more permissions than it needs.
 *
 *   start.ts            starts the workers of families, and the one that asks the container runtime
 *   serving.ts          starts the workers of `sluice serve`; an entry of its own, since that loads nothing else here
 *   worker_pool.ts      the workers of both families; each one can restart the other
 *   supervise.ts        keeps a family's worker running, and stops it while the family has no services
 *   memory_watch.ts     detects workers that use too much memory
 *   web_worker.ts       a Web Worker with minimal permissions, and its connection to the isolate that has started it
 *   protocol.ts         the messages of a family's worker
 *   packed_delta.ts     deltas in these messages
 *   checked_message.ts  validates messages to a worker
 *   calls.ts            the calls that a family's worker answers; its code and its tools
 *   family.ts           the entry point of a family's worker
 *   sync_loop.ts        setup, sync, retry and comparison
 *   relays.ts           adds relays to the families' workers
 *   relay_worker.ts     keeps a family's relay worker running; its messages
 *   relay.ts            the entry point of the relay worker
 *   serve.ts            the entry point of a worker of `sluice serve`
 *   start_plugin.ts     starts the worker that runs a credential plugin or a hook; its messages
 *   plugin.ts           the entry point of the plugin worker
 *   runtime.ts          the entry point of the runtime worker
 *
 * In: deltas and questions as messages, every field checked. Out: reports. May run: the tools of backends/contract.
 */
export { relaysOnDemand, startFamilyWorkers, startRuntimeWatch } from "./start.ts";
export { startPluginWorker } from "./start_plugin.ts";
