import type { ProxyMode } from "../../../core/model/mod.ts";
import type { FaultyTools } from "../faulty_tools.ts";
import type { ChaosLab } from "../lab.ts";
import { type ChaosSluice, startSluice } from "../sluice.ts";
import type { SyncMarker } from "../sync_marker.ts";
import { type History, PODS_OF_SLICE, SERVICES, type Step } from "./history.ts";
import { modelNode, modelService, modelSlice } from "./objects.ts";
import { differences } from "./probe.ts";
import { advance, emptyState } from "./reference.ts";

/** Runs histories one after the other. */
export interface HistoryRunner {
  /**
   * Runs a history on an empty cluster, and resolves with the differences from the reference model that remain after
   * `withinMs`.
   */
  run(history: History, withinMs?: number): Promise<string[]>;
  end(): Promise<void>;
}

/** Options of `createHistoryRunner`. */
export interface HistoryRunnerOptions {
  readonly lab: ChaosLab;
  readonly mode: ProxyMode;
  readonly tools: FaultyTools;
  readonly marker: SyncMarker;
}

/** Flushed rules are found after a sync period, and broken watches are reopened with backoff. */
const WITHIN_MS = 20_000;

const FLUSH_IPTABLES = "for tool in iptables ip6tables; do $tool -t nat -F; $tool -t filter -F; done";
const FLUSH: Readonly<Record<ProxyMode, string>> = {
  iptables: FLUSH_IPTABLES,
  nftables: "nft flush ruleset",
  ipvs: `${FLUSH_IPTABLES}; ipvsadm --clear; ip address flush dev kube-ipvs0`,
};

/** Deletion goes by name; the fields do not matter. */
const ANY_FIELDS = { type: "ClusterIP", internal: "Cluster", external: "Cluster", allows: "all" } as const;

/** Starts Sluice on an empty cluster. */
export async function createHistoryRunner(
  { lab, mode, tools, marker }: HistoryRunnerOptions,
): Promise<HistoryRunner> {
  const { api } = lab;
  const start = () => startSluice(lab, { mode, toolsFirst: tools.folder, syncPeriod: "1s" });
  let sluice: ChaosSluice = await start();

  const clear = () => {
    for (const service of SERVICES) {
      PODS_OF_SLICE.forEach((_, slice) => api.remove(modelSlice(service, slice, [])));
      api.remove(modelService(service, ANY_FIELDS));
    }
    api.apply(modelNode(undefined));
  };

  const applyStep = async (step: Step): Promise<void> => {
    switch (step.kind) {
      case "set service":
        return api.apply(modelService(step.service, step.fields));
      case "delete service":
        return api.remove(modelService(step.service, ANY_FIELDS));
      case "set slice":
        return api.apply(modelSlice(step.service, step.slice, step.endpoints));
      case "delete slice":
        return api.remove(modelSlice(step.service, step.slice, []));
      case "label node":
        return api.apply(modelNode(step.zone));
      case "expire watches":
        api.expire();
        return api.dropWatches("broken");
      case "break watches":
        return api.dropWatches("broken");
      case "fail tools":
        return await tools.set({ how: "fails", share: 50, message: "No buffer space available" });
      case "flush rules":
        await lab.run("node", ["sh", "-c", FLUSH[mode]!]);
        return;
      case "restart":
        await sluice.end(step.signal);
        sluice = await start();
    }
  };

  return {
    async run(history, withinMs = WITHIN_MS) {
      clear();
      const state = emptyState();
      let toolsFail = false;
      for (const step of [...history, { kind: "probe" } as const]) {
        if (toolsFail) await tools.set({ how: "none" });
        toolsFail = step.kind === "fail tools";
        await applyStep(step);
        advance(state, step);
        if (step.kind !== "probe") continue;
        await marker.move();
        const found = await differences(lab, { state, mode }, withinMs);
        if (found.length > 0) return found;
      }
      return [];
    },
    end: () => sluice.end("SIGTERM"),
  };
}
