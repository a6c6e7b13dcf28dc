import { errorText } from "../../platform/mod.ts";
import type { BackendOptions } from "../contract/mod.ts";
import type { KernelSetting } from "../../core/model/mod.ts";
import { readSysctl, reportSetting, writeSysctls } from "../host/mod.ts";
import { BASE, createFixedChains, type Jump, jump, type Layout, NO_LAYOUT, type Table } from "./chains.ts";
import { comment, LOOPBACK } from "./matches.ts";
import { createChainReconciler } from "./reconcile.ts";
import { createIptablesTools } from "./tools.ts";

const WHY = "block incoming localnet connections";

/**
 * The rules that drop martians: packets from elsewhere to loopback addresses. Node ports on 127.0.0.1 need a kernel that routes
 * loopback addresses (route_localnet), and such a kernel also delivers packets of other hosts and pods to programs that listen
 * on 127.0.0.1 for this node alone (CVE-2020-8558, kubernetes issue 90259). So the rules are written before that setting.
 *
 * - `mangle` drops packets as they arrive, before they are translated: otherwise node ports on 127.0.0.1 are served to whoever
 *   sends to this node's MAC address. Replies to this node's own connections have another destination then, and so have packets
 *   that another program directs to a loopback address. The table raw would be earlier, but some kernels with iptables-legacy
 *   lack it.
 * - `filter` has the rule of the kubelet and of kube-proxy (KUBE-FIREWALL), for packets that do not have their destination before:
 *   those with a source route, and those that another program lets pass in `mangle`.
 *
 * IPv6 needs no rules: the kernel itself drops packets from elsewhere to ::1 (ip6_rcv_core), whatever its settings.
 *
 * The rules exist in every mode with iptables whatever the settings, and stay when another mode takes over, since the kernel
 * setting outlives both. A cleanup resets the setting if Sluice has set it, and removes the rules if the kernel no longer routes
 * loopback addresses.
 */
const MARTIAN_RULES = {
  mangle: [`! -i lo ${comment(WHY)}-j DROP`],
  filter: [`! -i lo ${comment(WHY)}-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP`],
} as const;

/** The rules of a chain of martians; undefined for another chain. */
export function martianRules(table: Table, chain: string): readonly string[] | undefined {
  return chain === BASE.martians && table !== "nat" ? MARTIAN_RULES[table] : undefined;
}

/** Makes the kernel route loopback addresses; must not be set before martians are dropped. */
const ROUTE_LOOPBACK: KernelSetting = { name: "net.ipv4.conf.all.route_localnet", value: 1 };

/** An empty chain of the table filter: it exists while that setting is Sluice's, and neither outlives a reboot. */
export const ROUTED_BY_US = "KUBE-MARTIANS-SET";

const JUMPS: readonly Jump[] = [
  jump("filter", "INPUT", `-d ${LOOPBACK.IPv4} `, WHY, BASE.martians),
  jump("mangle", "PREROUTING", `-d ${LOOPBACK.IPv4} `, WHY, BASE.martians),
];

/** A layout with the chains of martians, which packets enter first. */
export function withMartians({ jumps, baseChains, isServiceChain }: Layout): Layout {
  const { filter, nat } = baseChains;
  return {
    jumps: [...jumps, ...JUMPS],
    baseChains: { mangle: [BASE.martians], filter: [...filter, BASE.martians], nat },
    isServiceChain,
  };
}

/**
 * Writes kernel settings as `writeSysctls` does, but before any sync wrote rules (--init-only): the martian rules are written
 * before loopback addresses are routed. If that fails, it is reported, and loopback addresses are not routed.
 */
export async function writeHostSettings(options: BackendOptions, settings: readonly KernelSetting[]): Promise<void> {
  const others = settings.filter(({ name }) => name !== ROUTE_LOOPBACK.name);
  if (others.length === settings.length) return await writeSysctls(options, settings);
  try {
    await dropMartians(options);
    await routeLoopback(options);
  } catch (error) {
    const detail = `not set, since martian packets could not be dropped: ${errorText(error)}`;
    reportSetting(options, ROUTE_LOOPBACK.name, detail);
  }
  await writeSysctls(options, others);
}

/**
 * Turns on routing of loopback addresses if it is off, and records in the kernel that Sluice did. Call it only when martians
 * are dropped. Failures are reported. Returns whether the setting is Sluice's.
 */
export async function routeLoopback(options: BackendOptions): Promise<boolean> {
  const { name, value } = ROUTE_LOOPBACK;
  if (await readSysctl(options, name) === String(value)) return false;
  const failure = await noteRouting(options);
  if (failure === undefined) await writeSysctls(options, [ROUTE_LOOPBACK]);
  else reportSetting(options, name, `not set, since that could not be noted for a cleanup: ${failure}`);
  return failure === undefined;
}

/** Records in the kernel that the setting is Sluice's. Returns the failure. */
export async function noteRouting({ runner }: BackendOptions): Promise<string | undefined> {
  const note = { table: "filter", chain: ROUTED_BY_US, action: "empty" } as const;
  return (await createIptablesTools("IPv4", runner).restore({ updates: [note] }))?.text;
}

/** Turns off routing of loopback addresses if Sluice turned it on. Returns whether the kernel still routes them. */
export async function stillRoutesLoopback(options: BackendOptions, isOurs: boolean): Promise<boolean> {
  const { name } = ROUTE_LOOPBACK;
  if (isOurs) await writeSysctls(options, [{ name, value: 0 }]);
  if (await readSysctl(options, name) === "0") return false;
  const cause = isOurs ? "the setting cannot be reset" : "another program has set it";
  options.logger.warn("the kernel still routes loopback addresses, so the rules that drop packets to them stay", {
    ...{ setting: name, cause, chain: BASE.martians },
    fix: `if no program needs it, run sysctl -w ${name}=0, and the cleanup again`,
  });
  return true;
}

/** Writes the martian rules, if they are missing, and nothing else. Throws if that fails. */
async function dropMartians({ runner, logger }: BackendOptions): Promise<void> {
  const tools = createIptablesTools("IPv4", runner), flavour = await tools.flavour();
  const layout = withMartians(NO_LAYOUT), ruleset = createFixedChains(layout.baseChains, martianRules);
  const reconciler = createChainReconciler({ layout, ruleset, tools, flavour, logger });
  reconciler.touch({ mangle: new Set([BASE.martians]), filter: new Set([BASE.martians]) });
  await reconciler.run();
}
