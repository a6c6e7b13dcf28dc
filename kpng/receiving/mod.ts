/**
 * Assembles Kubernetes objects from KPNG's operations.
 *
 * In: operations of a server, or entries of a state file. Out: objects, to a `SourceSink`. May touch: nothing.
 */
export { createAssembler } from "./assembler.ts";
export { createReceiver } from "./receive.ts";
export { readGlobalEndpoint } from "./received_endpoint.ts";
