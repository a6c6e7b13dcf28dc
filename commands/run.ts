import { RUN } from "../core/config/mod.ts";
import type { Command } from "./command.ts";

/** The proxy itself. */
export const runCommand: Command = {
  name: RUN,
  summary: "Run the proxy on this node (what happens without a command).",
  arguments: [],
  flags: [],
  examples: [
    {
      line: "sluice --config /etc/sluice/config.yaml",
      does: "with a KubeProxyConfiguration, kube-proxy's own among them",
    },
    { line: "sluice --kubeconfig /etc/sluice/kubeconfig --proxy-mode nftables", does: "with flags" },
    { line: "sluice --source file:services.yaml", does: "services from manifests, without an API server" },
    { line: "sluice --cleanup", does: "remove all rules, Sluice's and kube-proxy's, and end" },
  ],
  async start({ configuration, logger, logging, clock, signal }) {
    // A run writes no file; only --write-config-to does.
    Deno.permissions.revokeSync({ name: "write" });
    const { runProxy } = await import("../core/proxy.ts");
    const { startFamilyWorker } = await import("../workers/start.ts");
    return await runProxy({ configuration, logger, logging, clock, startFamily: startFamilyWorker, signal });
  },
};
