/**
 * The source for gRPC servers: `sluice serve` or KPNG.
 *
 *   grpc_source.ts  the source: one server watched at a time
 *   rotation.ts     the choice among several servers
 *   outage.ts       logs and reports servers that fail
 *   call.ts         one call
 *
 * In: messages of KPNG's protocol. Out: objects, to a `SourceSink`. May touch: the network.
 */
export { createGrpcSource } from "./grpc_source.ts";
