/**
 * KPNG's operations put together to Kubernetes' objects.
 */
export { createAssembler } from "./assembler.ts";
export { createReceiver } from "./receive.ts";
export { readGlobalEndpoint } from "./received_endpoint.ts";
