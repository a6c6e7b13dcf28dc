/**
 * The canary of each family: an address that the rules translate like a service's, tried from this node every few seconds.
 * Loaded only if the configuration asks for it.
 *
 *   canary.ts     places the canary
 *   rounds.ts     tries it, and judges whether packets flow
 *   state.ts      its state
 *   verdict.ts    the cause of a failure
 *   probe.ts      one try
 *   responder.ts  the endpoint that answers
 *   address.ts    chooses its addresses
 *
 * In: what the rules in effect serve, findings of the worker. Out: states, problems. May touch: sockets.
 */
export { type Canary, createCanary } from "./canary.ts";
export type { CanaryOptions } from "./state.ts";
