import { boolean } from "../../platform/schema/mod.ts";
import { feature } from "../contract.ts";

/** Writes the condition `ServiceProxyReady` of this node's Node (docs/health.md). */
export const nodeCondition = feature({
  name: "node_condition",
  fields: { nodeCondition: boolean() },
  flags: {
    "node-condition": [
      "nodeCondition",
      "Write the condition ServiceProxyReady of this node's Node; needs a permission of its own.",
    ],
  },
  problems: {
    "node-condition-refused": {
      severity: "warning",
      about: "node",
      title: "the API server refuses the condition ServiceProxyReady of this node's Node",
      fix: "permit patch of nodes/status (docs/health.md), or turn --node-condition off; Sluice retries every minute",
    },
  },
  permissions: () => [{
    verb: "patch",
    resource: "nodes/status",
    without: "the condition ServiceProxyReady of the Node is not written",
    fix:
      "uncomment nodes/status in deploy/rbac.yaml and apply it, or run `sluice kubeconfig --node-condition` with an " +
      "administrator's kubeconfig; the chart does it for nodeCondition in its configuration",
  }],
  isOn: (options) => options.nodeCondition,
  load: () => import("./start.ts"),
});
