/**
 * What every backend implements, and the tools that backends may run.
 */
export { type Backend, type BackendOptions, NOTHING_DONE, type SyncResult, UnsupportedHostError } from "./backend.ts";
export { BACKEND_TOOLS } from "./tools.ts";
