/** The messages of gRPC's standard services: health checks (grpc.health.v1) and server reflection (grpc.reflection). */
import { byteStrings, int32, message, nested, numbers, several, text } from "../codec/mod.ts";

/** A health status (enum `ServingStatus`). */
export const HEALTH = { UNKNOWN: 0, SERVING: 1, NOT_SERVING: 2, SERVICE_UNKNOWN: 3 } as const;

export const HEALTH_REQUEST = message({ service: text(1) });

export const HEALTH_RESPONSE = message({ status: int32(1, HEALTH) });

export const EXTENSION_REQUEST = message({ containingType: text(1), extensionNumber: int32(2) });

export const REFLECTION_REQUEST = message({
  host: text(1),
  fileByFilename: text(3),
  fileContainingSymbol: text(4),
  fileContainingExtension: nested(5, EXTENSION_REQUEST),
  allExtensionNumbersOfType: text(6),
  listServices: text(7),
});

export const FILE_DESCRIPTORS = message({ fileDescriptorProto: byteStrings(1) });

export const EXTENSION_NUMBERS = message({ baseTypeName: text(1), extensionNumber: numbers(2) });

export const SERVICE_NAME = message({ name: text(1) });

export const SERVICE_NAMES = message({ service: several(1, SERVICE_NAME) });

export const REFLECTION_ERROR = message({ errorCode: int32(1), errorMessage: text(2) });

export const REFLECTION_RESPONSE = message({
  validHost: text(1),
  originalRequest: nested(2, REFLECTION_REQUEST),
  fileDescriptorResponse: nested(4, FILE_DESCRIPTORS),
  allExtensionNumbersResponse: nested(5, EXTENSION_NUMBERS),
  listServicesResponse: nested(6, SERVICE_NAMES),
  errorResponse: nested(7, REFLECTION_ERROR),
});
