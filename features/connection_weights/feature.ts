import { feature } from "../contract.ts";

/** Weighs the endpoints of services that ask for `least-connections` by their open connections (docs/balance.md). */
export const connectionWeights = feature({
  name: "connection_weights",
  fields: {},
  flags: {},
  problems: {
    "connections-not-counted": {
      severity: "warning",
      about: "IP family",
      title: "open connections cannot be counted; least-connections uses the configured weights",
      fix:
        "see the log for the cause: nft's error, or a kernel without labels of connections (CONFIG_NF_CONNTRACK_LABELS)",
    },
  },
  isOn: (_, { balance }) => balance.countsConnections === true,
  load: () => import("./start.ts"),
});
