/**
 * Functions of a node beyond serving services. Each feature is a folder and a line in registry.ts.
 *
 *   contract.ts  the description of a feature, and what it may use of a running proxy
 *   registry.ts  all features
 *   calls.ts     the calls that they add to those of a family's worker
 *
 * In: options, and the proxy as a `Node`. Out: problems, metrics, Events, lines of the status. May touch: what each folder
 * names.
 */
export type * from "./contract.ts";
export { FEATURE_FIELDS, FEATURES, featuresOn, PROCESS_FEATURES, startProcessFeatures } from "./registry.ts";
