import { feature } from "../contract.ts";
import { FIELDS } from "./options.ts";

/** Leaves out endpoints that do not answer, and resets connections to deleted endpoints (docs/failover.md). */
export const failover = feature({
  name: "failover",
  fields: FIELDS,
  flags: {
    "endpoint-failure-detection": [
      "failover.endpointFailureDetection",
      "Leave out TCP endpoints that do not answer this node, until they answer again (nftables mode).",
    ],
    "reset-gone-connections": [
      "failover.resetGoneConnections",
      "Reset TCP connections of services to endpoints that were terminating and are gone (nftables and iptables mode).",
    ],
  },
  problems: {
    "endpoint-unreachable": {
      severity: "warning",
      about: "endpoint",
      title: "an endpoint does not answer this node and is left out",
      fix: "look at the endpoint's node and at the network to it; it is used again once it answers",
      event: "EndpointUnreachable",
    },
    "connections-not-reset": {
      severity: "warning",
      about: "IP family",
      title: "connections to deleted endpoints are not reset, and hang until their clients give up",
      fix: "see the detail for nft's error, or set failover.resetGoneConnections to false",
    },
  },
  check({ failover }, mode, report) {
    if (!failover.endpointFailureDetection || mode.settings.supportsFailover) return;
    const message = `is set, but mode ${mode.name} does not support it: use mode nftables`;
    report.refuse("failover.endpointFailureDetection", message);
  },
  familySettings: ({ failover }) => failover.endpointFailureDetection ? { countsAttempts: true } : {},
  isOn: ({ failover }, { settings: { resetsConnections = false } }) =>
    failover.endpointFailureDetection || failover.resetGoneConnections && resetsConnections,
  load: () => import("./start.ts"),
});
