/**
 * The modes of the proxy: a mode is a folder here and a line in registry.ts.
 *
 * In: the name of a mode. Out: its description, at once, and its backend, loaded late. May touch: nothing itself.
 */
export {
  backendTools,
  describeMode,
  findMode,
  loadBackend,
  type Mode,
  MODE_DESCRIPTIONS,
  MODES,
  removeOwnRules,
} from "./registry.ts";
export { findTraces, isKernelEmpty, type Traces } from "./traces.ts";
