/**
 * The client and source for an API server: list and watch, credentials, recovery, and sending objects (Events).
 *
 * In: a kubeconfig or service account. Out: objects, to a `SourceSink`. May touch: the network, files, credential plugins.
 */
export { ApiError, type ApiErrorKind } from "./api_error.ts";
export type { ApiClient } from "./http.ts";
export { connectToApi, createKubernetesSource } from "./kubernetes_source.ts";
export { pluginOf } from "./kubeconfig.ts";
export { listNodeNames, otherNodesText } from "./node_names.ts";
export type { CredentialPlugin } from "./plugin.ts";
export { resourcesOf } from "./resource.ts";
export { sendObject } from "./send_object.ts";
