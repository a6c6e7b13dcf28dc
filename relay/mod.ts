/**
 * The data path of userspace mode: listens for redirected connections and carries TCP and UDP to endpoints. It has no
 * rules: backends redirect to its ports. It serves node ports on loopback addresses the same way, without a rule.
 *
 *   contract.ts          the relay's interface, limits and figures
 *   limits.ts            the default limits
 *   relay.ts             applies deltas
 *   listeners.ts         the listeners of service ports
 *   places.ts            where a service port listens, and why that can fail
 *   target.ts            the endpoints behind a listener, and the choice among them
 *   affinity.ts          the endpoints of clients with session affinity
 *   connections.ts       TCP connections
 *   dial.ts              connects to the first endpoint that accepts
 *   udp_flows.ts         UDP flows
 *   idle_flows.ts        the end of idle flows
 *   datagram_buffers.ts  buffers for datagrams
 *   file_watch.ts        a lack of files
 *   figures.ts           the counters
 *   traffic.ts           counts by service port and endpoint, for traffic metrics
 *   network.ts           the sockets of the system
 *
 * A redirected client can also connect to a relay's port directly, past the checks of the rules (source ranges): a backend
 * that redirects must drop what arrives at these ports without having been redirected.
 *
 * In: deltas, connections, datagrams. Out: ports, problems, figures. May touch: the network.
 */
export type {
  Relay,
  RelayFigures,
  RelayLimits,
  RelayListeners,
  RelayOptions,
  RelayPlacement,
  RelayUpdate,
} from "./contract.ts";
export { defaultRelayLimits } from "./limits.ts";
export type { DatagramSocket, RelayNetwork, TcpListening } from "./network.ts";
export { createRelay } from "./relay.ts";
