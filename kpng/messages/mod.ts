/**
 * KPNG's messages, and how Kubernetes' objects read as such and back.
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
export { listIps } from "./ip_set.ts";
export {
  ENDPOINT,
  ENDPOINT_INFO,
  type EndpointInfoMessage,
  type EndpointMessage,
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
  WATCH_REQUEST,
  type WatchRequestMessage,
} from "./messages.ts";
export { nodeMessage, nodeOfMessage } from "./node_message.ts";
export { isSecondPath, splitLocalPath } from "./paths.ts";
export { serviceCIDRMessage, serviceCIDROfMessage } from "./service_cidr_message.ts";
export { serviceMessage, serviceOfMessage } from "./service_message.ts";
