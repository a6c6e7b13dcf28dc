/**
 * Web Workers: one per IP family for the kernel side, one that runs credential plugins. Each has no more permissions than
 * it needs.
 *
 * In: deltas and questions as messages, every field checked. Out: reports. May run: the tools of backends/contract.
 */
export { startFamilyWorkers } from "./start.ts";
export { startPluginWorker } from "./start_plugin.ts";
