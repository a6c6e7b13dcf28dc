/**
 * KPNG's messages, and their conversion from and to Kubernetes objects.
 *
 * In: objects or messages. Out: messages or objects. May touch: nothing.
 */
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
export { nodeMessage, nodeOfMessage, serviceCIDRMessage, serviceCIDROfMessage } from "./scoped_messages.ts";
export { serviceMessage, serviceOfMessage } from "./service_message.ts";
