import { errorText } from "../../platform/mod.ts";
import type { BackendOptions } from "../contract/mod.ts";
import { ifInstalled, type ToolFailure, ToolMissingError } from "../tools/mod.ts";
import { isTable, type Jump, type Layout, NO_LAYOUT } from "./chains.ts";
import { ROUTED_BY_US, stillRoutesLoopback, withMartians } from "./martians.ts";
import { createIptablesTools, type Flavour, type IptablesTools, removalInputs, type RestoreInput } from "./tools.ts";

/** The chains of Sluice and of kube-proxy's modes iptables and ipvs, without the kubelet's. */
const OURS = new RegExp(
  "^KUBE-(SERVICES|NODEPORTS|POSTROUTING|MARK-MASQ|FORWARD|PROXY-FIREWALL|EXTERNAL-SERVICES|PROXY-CANARY" +
    "|MARTIANS|MARTIANS-SET|NODE-PORT|LOAD-BALANCER|SOURCE-RANGES-FIREWALL|IPVS-FILTER|IPVS-OUT-FILTER|(SVC|SVL|SEP|EXT|FW|XLB)-.+)$",
);

/** A table as iptables-save prints it. */
interface SavedTable {
  readonly name: string;
  readonly chains: string[];
  /** Rules of other chains that jump to these chains. */
  readonly jumps: Jump<string>[];
}

/**
 * Removes the chains of Sluice and of kube-proxy's modes iptables and ipvs, and the jumps to them, except for the martian rules
 * and the layout that stays. Throws if something could not be removed.
 */
export async function removeIptablesTraces(options: BackendOptions, stays: Layout = NO_LAYOUT): Promise<void> {
  await removeFrom(createIptablesTools(options.family, options.runner), withMartians(stays));
}

/**
 * Removes the martian rules from both variants of iptables if the kernel, after a reset of a setting that is Sluice's, no longer
 * routes loopback addresses; keeps it and warns otherwise. Call it when all other traces are removed. Throws if something could
 * not be removed.
 */
export async function removeMartians(options: BackendOptions): Promise<void> {
  if (options.family !== "IPv4") return;
  const inUse = createIptablesTools("IPv4", options.runner);
  const chainsOf = async (tools: IptablesTools) => (await findOurs(tools, undefined)).flatMap(({ chains }) => chains);
  const other = createIptablesTools("IPv4", options.runner, otherVariant(await inUse.flavour()));
  const ofOther = await ifInstalled(chainsOf(other)) ?? [];
  const chains = [...await chainsOf(inUse), ...ofOther];
  if (chains.length === 0 || await stillRoutesLoopback(options, chains.includes(ROUTED_BY_US))) return;
  await removeFrom(inUse, undefined);
  if (ofOther.length > 0) await removeFrom(other, undefined);
}

/** Removes the chains that the other variant of iptables has: a node may have switched. Throws if that fails. */
export async function removeTracesOfOtherVariant(options: BackendOptions): Promise<void> {
  const { family, runner, logger } = options;
  let variant: Flavour | undefined;
  try {
    variant = otherVariant(await createIptablesTools(family, runner).flavour());
    const other = createIptablesTools(family, runner, variant);
    if (!await removeFrom(other, withMartians(NO_LAYOUT))) return;
    logger.info("removed the rules of the other iptables variant", { variant });
  } catch (error) {
    if (error instanceof ToolMissingError) return;
    throw new Error(`rules of iptables' variant ${variant ?? "unknown"}: ${errorText(error)}`, { cause: error });
  }
}

function otherVariant(flavour: Flavour): Flavour {
  return flavour === "legacy" ? "nf_tables" : "legacy";
}

/** The most listings of one removal: it lists again whenever another program has removed some of what it listed. */
const MOST_LISTINGS = 10;

/** Removes what does not belong to the layout that stays; returns whether there was anything. */
async function removeFrom(tools: IptablesTools, stays: Layout | undefined): Promise<boolean> {
  let wasThere = false;
  for (let listings = 1;; listings++) {
    const tables = await findOurs(tools, stays);
    wasThere ||= tables.some(({ chains }) => chains.length > 0);
    const failure = await removeAll(tools, tables);
    if (failure === undefined) return wasThere;
    if (failure.kind !== "absent" || listings === MOST_LISTINGS) throw new Error(failure.text);
  }
}

async function removeAll(tools: IptablesTools, tables: readonly SavedTable[]): Promise<ToolFailure | undefined> {
  for (const table of tables) {
    for (const input of removal(table)) {
      const failure = await tools.restore(input);
      if (failure) return failure;
    }
  }
}

async function findOurs(tools: IptablesTools, stays: Layout | undefined): Promise<readonly SavedTable[]> {
  const tables = new Map<string, SavedTable>();
  const tableOf = (name: string) => {
    const table = tables.get(name) ?? { name, chains: [], jumps: [] };
    tables.set(name, table);
    return table;
  };
  const chainStays = (table: string, chain: string) =>
    stays && isTable(table) &&
    (chain === ROUTED_BY_US || stays.baseChains[table].includes(chain) || stays.isServiceChain(table, chain));
  const jumpStays = (jump: Jump<string>) =>
    stays?.jumps.some(({ table, from, rule }) => table === jump.table && from === jump.from && rule === jump.rule);
  await tools.save({
    onChain(table, chain) {
      if (OURS.test(chain) && !chainStays(table, chain)) tableOf(table).chains.push(chain);
    },
    onRule(table, from, rule) {
      const to = /(?:^| )-[jg] (\S+)/.exec(rule)?.[1];
      if (to === undefined || !OURS.test(to) || OURS.test(from)) return;
      const jump = { table, from, rule };
      if (!jumpStays(jump)) tableOf(table).jumps.push(jump);
    },
  });
  return [...tables.values()];
}

/** The time of a transaction grows with the square of its chains, so many chains are removed in several transactions. */
const CHAINS_AT_ONCE = 1000;

/** The inputs that remove a table's chains: the jumps to them first, then their rules, then the chains. */
function* removal({ name: table, chains, jumps }: SavedTable): Generator<RestoreInput<string>> {
  if (jumps.length > 0) yield { updates: [], surplusJumps: jumps };
  yield* removalInputs(chains.map((chain) => ({ table, chain })), CHAINS_AT_ONCE);
}
