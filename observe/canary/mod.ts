/**
 * The canary of each family: an address that the rules translate like a service's, tried from this node every few seconds.
 * Loaded only if the configuration asks for it.
 *
 *   canary.ts     places the canary, tries it, and judges whether packets flow
 *   verdict.ts    the cause of a failure
 *   probe.ts      one try
 *   responder.ts  the endpoint that answers
 *   address.ts    chooses its addresses
 *
 * In: what the rules in effect serve, findings of the worker. Out: states, problems. May touch: sockets.
 */
export { type Canary, type CanaryOptions, createCanary } from "./canary.ts";
