/**
 * KPNG's messages, and their conversion from and to Kubernetes objects.
 *
 * In: objects or messages. Out: messages or objects. May touch: nothing.
 */
export { createDocumentedState, type DescribedOperation, describeOperation } from "./describe.ts";
export {
  annotateAffinity,
  eachEndpoint,
  endpointInfoMessage,
  endpointMessage,
  extendedEndpointMessage,
  nodeMessage,
  nodeOfMessage,
  podEndpoints,
  serviceCIDRMessage,
  serviceCIDROfMessage,
  serviceMessage,
  serviceOfMessage,
  type SourceEndpoint,
} from "./object_messages.ts";

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
} from "./messages.ts";
