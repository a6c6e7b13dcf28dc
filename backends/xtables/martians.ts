import { errorText } from "../../platform/mod.ts";
import type { BackendOptions } from "../contract/mod.ts";
import { reportSetting, type Sysctl, writeSysctls } from "../host/mod.ts";
import { BASE } from "./chain_names.ts";
import { jump, type Layout, NO_LAYOUT } from "./layout.ts";
import { comment, LOOPBACK } from "./matches.ts";
import { createReconciler } from "./reconcile.ts";
import { createIptablesTools } from "./tools.ts";

/**
 * The rule that drops martians: packets from other addresses to loopback addresses. Node ports on 127.0.0.1 need a kernel
 * that routes loopback addresses (route_localnet), and such a kernel also delivers packets of other hosts and pods to
 * programs that listen on 127.0.0.1 for this node alone (CVE-2020-8558, kubernetes issue 90259). So the rule is written
 * before that setting. The kubelet and kube-proxy have the same rule in KUBE-FIREWALL; Sluice has a chain of its own.
 *
 * The rule exists in iptables mode whatever the settings, and stays when another mode takes over, since the kernel setting
 * outlives both. Only a cleanup removes it.
 */
export const MARTIAN_RULES: readonly string[] = [
  `! -s ${LOOPBACK.IPv4} -d ${LOOPBACK.IPv4} ${comment("block incoming localnet connections")}` +
  "-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
];

/** Makes the kernel route loopback addresses; must not be set before martians are dropped. */
export const ROUTE_LOOPBACK: Sysctl = { name: "net.ipv4.conf.all.route_localnet", value: 1 };

const JUMP = jump("filter", "INPUT", `-d ${LOOPBACK.IPv4} `, "block incoming localnet connections", BASE.martians);

/** A layout with the chain of martians, ahead of all other chains for packets to this node. */
export function withMartians({ jumps, baseChains, isServiceChain }: Layout): Layout {
  const { filter, nat } = baseChains;
  return { jumps: [...jumps, JUMP], baseChains: { filter: [...filter, BASE.martians], nat }, isServiceChain };
}

/**
 * Writes kernel settings as `writeSysctls` does, but before any sync wrote rules (--init-only): the martian rule is written
 * before loopback addresses are routed. If that fails, it is reported, and loopback addresses are not routed.
 */
export async function writeHostSettings(options: BackendOptions, settings: readonly Sysctl[]): Promise<void> {
  const others = settings.filter(({ name }) => name !== ROUTE_LOOPBACK.name);
  if (others.length === settings.length) return await writeSysctls(options, settings);
  try {
    await dropMartians(options);
    await writeSysctls(options, settings);
  } catch (error) {
    const detail = `not set, since martian packets could not be dropped: ${errorText(error)}`;
    reportSetting(options, ROUTE_LOOPBACK.name, detail);
    await writeSysctls(options, others);
  }
}

/** Writes the martian rule, if it is missing, and nothing else. Throws if that fails. */
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
