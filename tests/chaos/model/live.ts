import type { ProxyMode } from "../../../core/model/mod.ts";
import type { FaultyTools } from "../faulty_tools.ts";
import type { ChaosLab } from "../lab.ts";
import type { Sentinel } from "../sentinel.ts";
import { type ChaosSluice, startSluice } from "../sluice.ts";
import { type History, PODS_OF_SLICE, SERVICES, type Step } from "./history.ts";
import { modelNode, modelService, modelSlice } from "./objects.ts";
import { differences } from "./probe.ts";
import { advance, emptyState } from "./reference.ts";

/** A cluster that lives through histories, one after the other. */
export interface LivingCluster {
  /**
   * Lives through a history from an empty cluster on, and resolves with where it differs from the reference model still
   * after that time.
   */
  live(history: History, withinMs?: number): Promise<string[]>;
  end(): Promise<void>;
}

/** What it is made of. */
export interface LivingClusterOptions {
  readonly lab: ChaosLab;
  readonly mode: ProxyMode;
  readonly tools: FaultyTools;
  readonly sentinel: Sentinel;
}

/** Flushed rules are noticed after a sync period, broken watches are opened again after a wait that grows. */
const WITHIN_MS = 20_000;

const FLUSH_IPTABLES = "for tool in iptables ip6tables; do $tool -t nat -F; $tool -t filter -F; done";
const FLUSH: Readonly<Record<ProxyMode, string>> = {
  iptables: FLUSH_IPTABLES,
  nftables: "nft flush ruleset",
  ipvs: `${FLUSH_IPTABLES}; ipvsadm --clear; ip address flush dev kube-ipvs0`,
};

/** An object is deleted by its name, whatever else it says. */
const ANY_WISH = { type: "ClusterIP", internal: "Cluster", external: "Cluster", allows: "everybody" } as const;

/** Starts Sluice on an empty cluster. */
export async function createLivingCluster(
  { lab, mode, tools, sentinel }: LivingClusterOptions,
): Promise<LivingCluster> {
  const { api } = lab;
  const start = () => startSluice(lab, { mode, toolsFirst: tools.folder, syncPeriod: "1s" });
  let sluice: ChaosSluice = await start();

  const clear = () => {
    for (const service of SERVICES) {
      PODS_OF_SLICE.forEach((_, slice) => api.remove(modelSlice(service, slice, [])));
      api.remove(modelService(service, ANY_WISH));
    }
    api.apply(modelNode(undefined));
  };

  const take = async (step: Step): Promise<void> => {
    switch (step.does) {
      case "set service":
        return api.apply(modelService(step.service, step.wish));
      case "delete service":
        return api.remove(modelService(step.service, ANY_WISH));
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
        return await tools.set({ how: "fails", share: 50, says: "No buffer space available" });
      case "flush rules":
        await lab.run("node", ["sh", "-c", FLUSH[mode]]);
        return;
      case "restart":
        await sluice.end(step.signal);
        sluice = await start();
    }
  };

  return {
    async live(history, withinMs = WITHIN_MS) {
      clear();
      const state = emptyState();
      let toolsFail = false;
      for (const step of [...history, { does: "probe" } as const]) {
        if (toolsFail) await tools.set({ how: "none" });
        toolsFail = step.does === "fail tools";
        await take(step);
        advance(state, step);
        if (step.does !== "probe") continue;
        await sentinel.move();
        const found = await differences(lab, { state, mode }, withinMs);
        if (found.length > 0) return found;
      }
      return [];
    },
    end: () => sluice.end("SIGTERM"),
  };
}
