/**
 * Checks the API server before a proxy uses it: permissions, version, clock, the node's name.
 *
 * In: the configuration. Out: findings. May touch: the API server.
 */
export { examineApi } from "./api.ts";
