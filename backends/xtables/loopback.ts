import { errorText } from "../../platform/mod.ts";
import type { BackendOptions } from "../contract/mod.ts";
import { type Sysctl, writeSysctls } from "../host/mod.ts";
import { NO_LAYOUT } from "./layout.ts";
import { MARTIAN_RULES, ROUTE_LOOPBACK, withMartians } from "./martians.ts";
import { createReconciler } from "./reconcile.ts";
import { createIptablesTools } from "./tools.ts";

/**
 * Gives settings of the kernel their values, as `writeSysctls` does, where no sync has written rules before
 * (--init-only): martians are dropped before loopback addresses are routed. Where they cannot be, which is logged,
 * loopback is left alone.
 */
export async function writeHostSettings(options: BackendOptions, settings: readonly Sysctl[]): Promise<void> {
  const { runner, logger } = options;
  const others = settings.filter(({ name }) => name !== ROUTE_LOOPBACK.name);
  if (others.length === settings.length) return await writeSysctls(runner, logger, settings);
  try {
    await dropMartians(options);
    await writeSysctls(runner, logger, settings);
  } catch (error) {
    logger.warn("loopback addresses are not routed, since martian packets could not be dropped", {
      setting: ROUTE_LOOPBACK.name,
      error: errorText(error),
    });
    await writeSysctls(runner, logger, others);
  }
}

/** Writes the rule that drops martians, where it is not there, and nothing else. Throws where it cannot. */
async function dropMartians({ runner, logger }: BackendOptions): Promise<void> {
  const tools = createIptablesTools("IPv4", runner);
  const layout = withMartians(NO_LAYOUT), filter = new Set(layout.baseChains.filter), nat = new Set<string>();
  const reconciler = createReconciler({
    layout,
    ruleset: {
      render: () => ({ rules: MARTIAN_RULES, jumps: 0, ownerOf: () => undefined }),
      has: (table, chain) => layout.baseChains[table].includes(chain),
      chains: (table) => layout.baseChains[table],
      rank: () => 0,
      exclude: () => ({ filter: nat, nat }),
      servicePort: () => undefined,
    },
    tools,
    flavour: await tools.flavour(),
    logger,
  });
  reconciler.touch({ filter, nat });
  await reconciler.run();
}
