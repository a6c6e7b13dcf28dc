/** The proto files of the served packages, by the names that KPNG and gRPC give them. */
import type { ProtoFile } from "../codec/mod.ts";
import {
  CLIENT_IP_AFFINITY,
  EMPTY_OP,
  ENDPOINT,
  ENDPOINT_CONDITIONS,
  ENDPOINT_DETAILS,
  ENDPOINT_INFO,
  ENDPOINT_SCOPES,
  GLOBAL_WATCH_REQUEST,
  IP_FILTER,
  IP_SET,
  NODE,
  NODE_INFO,
  OP_ITEM,
  PORT_MAPPING,
  PORT_NAME,
  PROTOCOL_NUMBERS,
  REF,
  SERVICE,
  SERVICE_CIDR,
  SERVICE_INFO,
  SERVICE_IPS,
  SET_NUMBERS,
  TOPOLOGY_HINTS,
  TOPOLOGY_INFO,
  VALUE,
  WATCH_REQUEST,
} from "./messages.ts";
import {
  EXTENSION_NUMBERS,
  EXTENSION_REQUEST,
  FILE_DESCRIPTORS,
  HEALTH,
  HEALTH_REQUEST,
  HEALTH_RESPONSE,
  REFLECTION_ERROR,
  REFLECTION_REQUEST,
  REFLECTION_RESPONSE,
  SERVICE_NAME,
  SERVICE_NAMES,
} from "./service_messages.ts";

/** KPNG's names: `ipFilters` is `IPFilters`. */
const inPascalCase = (name: string) =>
  name.replace(/^(ip|cidr)/, (start) => start.toUpperCase()).replace(/^./, (first) => first.toUpperCase());
/** Google's names: `listServices` is `list_services`. */
const inSnakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

const BOTH_STREAM = { clientStreams: true, serverStreams: true } as const;

const LOCAL: ProtoFile = {
  name: "api/localv1/api.proto",
  package: "localv1",
  messages: {
    WatchReq: WATCH_REQUEST,
    OpItem: OP_ITEM,
    EmptyOp: EMPTY_OP,
    Ref: REF,
    Value: VALUE,
    Service: SERVICE,
    IPFilter: IP_FILTER,
    ServiceIPs: SERVICE_IPS,
    Endpoint: ENDPOINT,
    EndpointScopes: ENDPOINT_SCOPES,
    EndpointDetails: ENDPOINT_DETAILS,
    IPSet: IP_SET,
    PortName: PORT_NAME,
    PortMapping: PORT_MAPPING,
    ClientIPAffinity: CLIENT_IP_AFFINITY,
  },
  enumerations: { Set: SET_NUMBERS, Protocol: PROTOCOL_NUMBERS },
  oneofs: { OpItem: ["Op", ["sync", "reset", "set", "delete"]], Service: ["SessionAffinity", ["clientIP"]] },
  services: { Sets: { Watch: { request: WATCH_REQUEST, response: OP_ITEM, ...BOTH_STREAM } } },
  fieldName: inPascalCase,
};

const GLOBAL: ProtoFile = {
  name: "api/globalv1/api.proto",
  package: "globalv1",
  imports: [LOCAL],
  messages: {
    ServiceInfo: SERVICE_INFO,
    EndpointInfo: ENDPOINT_INFO,
    EndpointConditions: ENDPOINT_CONDITIONS,
    TopologyInfo: TOPOLOGY_INFO,
    TopologyHints: TOPOLOGY_HINTS,
    NodeInfo: NODE_INFO,
    Node: NODE,
    ServiceCIDR: SERVICE_CIDR,
    GlobalWatchReq: GLOBAL_WATCH_REQUEST,
  },
  services: { Sets: { Watch: { request: GLOBAL_WATCH_REQUEST, response: OP_ITEM, ...BOTH_STREAM } } },
  fieldName: inPascalCase,
};

const HEALTH_FILE: ProtoFile = {
  name: "grpc/health/v1/health.proto",
  package: "grpc.health.v1",
  messages: { HealthCheckRequest: HEALTH_REQUEST, HealthCheckResponse: HEALTH_RESPONSE },
  enumerations: { "HealthCheckResponse.ServingStatus": HEALTH },
  services: {
    Health: {
      Check: { request: HEALTH_REQUEST, response: HEALTH_RESPONSE },
      Watch: { request: HEALTH_REQUEST, response: HEALTH_RESPONSE, serverStreams: true },
    },
  },
  fieldName: inSnakeCase,
};

const reflectionFile = (version: string): ProtoFile => ({
  name: `grpc/reflection/${version}/reflection.proto`,
  package: `grpc.reflection.${version}`,
  messages: {
    ServerReflectionRequest: REFLECTION_REQUEST,
    ExtensionRequest: EXTENSION_REQUEST,
    ServerReflectionResponse: REFLECTION_RESPONSE,
    FileDescriptorResponse: FILE_DESCRIPTORS,
    ExtensionNumberResponse: EXTENSION_NUMBERS,
    ListServiceResponse: SERVICE_NAMES,
    ServiceResponse: SERVICE_NAME,
    ErrorResponse: REFLECTION_ERROR,
  },
  oneofs: {
    ServerReflectionRequest: ["message_request", [
      "fileByFilename",
      "fileContainingSymbol",
      "fileContainingExtension",
      "allExtensionNumbersOfType",
      "listServices",
    ]],
    ServerReflectionResponse: ["message_response", [
      "fileDescriptorResponse",
      "allExtensionNumbersResponse",
      "listServicesResponse",
      "errorResponse",
    ]],
  },
  services: {
    ServerReflection: {
      ServerReflectionInfo: { request: REFLECTION_REQUEST, response: REFLECTION_RESPONSE, ...BOTH_STREAM },
    },
  },
  fieldName: inSnakeCase,
});

/** The files of all packages that the gRPC server serves. */
export const PROTO_FILES: readonly ProtoFile[] = [
  LOCAL,
  GLOBAL,
  HEALTH_FILE,
  reflectionFile("v1"),
  reflectionFile("v1alpha"),
];
