/**
 * The source for a gRPC server: `sluice serve` or KPNG.
 *
 * In: messages of KPNG's protocol. Out: objects, to a `SourceSink`. May touch: the network.
 */
export { createGrpcSource } from "./grpc_source.ts";
