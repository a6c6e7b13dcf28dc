/**
 * Objects of a gRPC server: `sluice serve` or KPNG.
 */
export { createGrpcSource } from "./grpc_source.ts";
