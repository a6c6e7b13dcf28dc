/**
 * The client and source for an API server: list and watch, credentials, recovery, and sending objects (Events).
 *
 *   kubernetes_source.ts   the source: a reflector per kind
 *   resource.ts            how to request each kind
 *   reflector.ts           list, watch, retry and relist of one resource
 *   list.ts                paged lists
 *   json_items.ts          incremental JSON parser of lists
 *   watch.ts               one watch
 *   watch_stream.ts        decodes the events of a watch
 *   watch_timeout.ts       how long a watch may be silent
 *   known_objects.ts       deduplicates objects by version
 *   recovery.ts            waits shared by the reflectors of one server
 *   server_return.ts       detects that the server is reachable again
 *   http.ts                the HTTP client
 *   named_server.ts        the same for a server whose certificate has another name
 *   api_error.ts           failed requests, classified
 *   send_object.ts         creates or patches an object (Events)
 *   read_object.ts         reads an object
 *   node_names.ts          the cluster's Nodes, for messages
 *   metadata_list.ts       the metadata of listed objects
 *   service_uid.ts         the UID of a Service, for its Events
 *   credentials.ts         finds the API server and its credentials
 *   access.ts              the server's URL and the origin of each credential
 *   kubeconfig.ts          kubeconfig files
 *   in_cluster.ts          the service account of a pod
 *   material.ts            certificates and keys, inline or in files
 *   client_certificate.ts  validates a client certificate and its key
 *   plugin.ts              the kinds of credential plugins
 *   exec_plugin.ts         plugin programs (`exec`)
 *   auth_provider.ts       auth-providers of @kubernetes/client-node
 *
 * In: a kubeconfig or service account. Out: objects, to a `SourceSink`. May touch: the network, files, credential plugins.
 */
export { ApiError, type ApiErrorKind } from "./api_error.ts";
export { type ApiClient, loadCertificateCheck } from "./http.ts";
export { connectToApi, createKubernetesSource } from "./kubernetes_source.ts";
export { type ApiServer, pluginOf, readApiServer } from "./kubeconfig.ts";
export { listNodeNames, otherNodesText } from "./node_names.ts";
export type { CredentialPlugin } from "./plugin.ts";
export { readNode, readText } from "./read_object.ts";
export { resourcesOf } from "./resource.ts";
export { sendObject } from "./send_object.ts";
export { readServiceUid } from "./service_uid.ts";
