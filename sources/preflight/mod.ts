/**
 * Examines the API server before a proxy uses it: rights, versions, clocks, the node's name.
 *
 * In: the configuration. Out: findings. May touch: the API server.
 */
export { examineApi } from "./api.ts";
