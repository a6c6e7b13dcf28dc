/**
 * Calls of gRPC servers, with checks on hostile ones.
 *
 *   connection.ts  one connection, and the ends of its calls
 *   unary_call.ts  a call with one request and one response
 *
 * In: requests. Out: responses. May touch: the network.
 */
export { type Connection, openConnection, ServerLeavingError, watchEnd } from "./connection.ts";
export { unaryCall } from "./unary_call.ts";
