/**
 * Userspace mode: the rules of iptables mode up to the choice of an endpoint, which they leave to the relay in this process.
 *
 *   mode.ts  the description of the mode
 *   code.ts  its code: the backend of iptables mode with the relay's ports
 *
 * In: deltas of one family, with the ports of its relay. Out: rules in the kernel. May run: the tools of iptables mode.
 */
export { USERSPACE_MODE } from "./mode.ts";
