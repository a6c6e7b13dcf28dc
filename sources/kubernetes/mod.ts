/**
 * Objects of an API server: list and watch, credentials, recovery, and the few objects that Sluice sends (Events).
 */
export { ApiError, type ApiErrorKind } from "./api_error.ts";
export type { ApiClient } from "./http.ts";
export { connectToApi, createKubernetesSource } from "./kubernetes_source.ts";
export { listNodeNames, otherNodesText } from "./node_names.ts";
export type { CredentialPlugin } from "./plugin.ts";
export { pluginOf } from "./plugin_program.ts";
export { resourcesOf } from "./resource.ts";
export { sendObject } from "./send_object.ts";
