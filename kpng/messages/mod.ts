/**
 * KPNG's messages and those of gRPC's standard services, and the conversion of KPNG's from and to Kubernetes objects.
 *
 * In: objects or messages. Out: messages or objects. May touch: nothing.
 */
export {
  createDocumentedState,
  type DocumentedService,
  type DocumentedState,
  type StateDocument,
} from "./state_document.ts";
export { annotateAffinity } from "./affinity_annotation.ts";
export { type DescribedOperation, describeOperation } from "./describe.ts";
export {
  eachEndpoint,
  endpointInfoMessage,
  endpointMessage,
  extendedEndpointMessage,
  podEndpoints,
  type SourceEndpoint,
} from "./endpoint_message.ts";

export {
  ENDPOINT,
  ENDPOINT_INFO,
  type EndpointInfoMessage,
  type EndpointMessage,
  isSecondPath,
  listIps,
  METHODS,
  NODE,
  NODE_INFO,
  type NodeMessage,
  OP_ITEM,
  type OpItemMessage,
  PROBE_METHOD,
  PROTOCOLS,
  SERVICE,
  SERVICE_CIDR,
  SERVICE_INFO,
  type ServiceCIDRMessage,
  type ServiceMessage,
  SETS,
  splitLocalPath,
  WATCH_REQUEST,
  type WatchRequestMessage,
} from "./messages.ts";
export { PROTO_FILES } from "./proto_files.ts";
export { nodeMessage, nodeOfMessage, serviceCIDRMessage, serviceCIDROfMessage } from "./scoped_messages.ts";
export {
  HEALTH,
  HEALTH_REQUEST,
  HEALTH_RESPONSE,
  REFLECTION_REQUEST,
  REFLECTION_RESPONSE,
} from "./service_messages.ts";
export { serviceMessage, serviceOfMessage } from "./service_message.ts";
