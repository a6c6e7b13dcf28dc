import type { BackendOptions } from "../contract/mod.ts";
import { readSysctl } from "../host/mod.ts";
import { BASE, TABLES } from "./chain_names.ts";
import type { Jump, Layout } from "./layout.ts";
import { ROUTE_LOOPBACK } from "./martians.ts";
import type { RestoreInput } from "./restore.ts";
import { createIptablesTools, type Flavour, type IptablesTools } from "./tools.ts";
import { ToolMissingError } from "../tools/mod.ts";
import { errorText } from "../../platform/mod.ts";

/**
 * The chains of Sluice and of kube-proxy's modes iptables and ipvs, without those of the kubelet (KUBE-KUBELET-CANARY,
 * KUBE-FIREWALL, …).
 */
const OURS = new RegExp(
  "^KUBE-(SERVICES|NODEPORTS|POSTROUTING|MARK-MASQ|FORWARD|PROXY-FIREWALL|EXTERNAL-SERVICES|PROXY-CANARY" +
    "|MARTIANS|NODE-PORT|LOAD-BALANCER|SOURCE-RANGES-FIREWALL|IPVS-FILTER|IPVS-OUT-FILTER|(SVC|SVL|SEP|EXT|FW|XLB)-.+)$",
);

/** A table as iptables-save prints it. */
interface SavedTable {
  readonly name: string;
  readonly chains: string[];
  /** Rules of other chains that jump to these chains. */
  readonly jumps: Jump<string>[];
}

/**
 * Removes the chains of Sluice and of kube-proxy's modes iptables and ipvs, and the jumps to them, except for those of the
 * layout that stays. Throws if something could not be removed.
 */
export async function removeIptablesTraces(options: BackendOptions, stays?: Layout): Promise<void> {
  await removeWith(createIptablesTools(options.family, options.runner), options, stays);
}

/**
 * Removes the chains of Sluice and of kube-proxy that the other variant of iptables has, legacy or nf_tables: a node may
 * have switched. Warns if they cannot be read; throws if they cannot be removed.
 */
export async function removeTracesOfOtherVariant(options: BackendOptions): Promise<void> {
  const { family, runner, logger } = options;
  let variant: Flavour | undefined;
  try {
    variant = await createIptablesTools(family, runner).flavour() === "legacy" ? "nf_tables" : "legacy";
    const other = createIptablesTools(family, runner, variant);
    if ((await findOurs(other, undefined)).every(({ chains }) => chains.length === 0)) return;
    await removeWith(other, options, undefined);
    logger.info("removed the rules of the other iptables variant", { variant });
  } catch (error) {
    if (error instanceof ToolMissingError) return;
    throw new Error(`rules of iptables' variant ${variant ?? "unknown"}: ${errorText(error)}`, { cause: error });
  }
}

async function removeWith(tools: IptablesTools, options: BackendOptions, stays: Layout | undefined): Promise<void> {
  const tables = await findOurs(tools, stays);
  for (const table of tables) {
    for (const input of removal(table)) {
      const failure = await tools.restore(input);
      if (failure) throw new Error(failure.text);
    }
  }
  if (tables.some(({ chains }) => chains.includes(BASE.martians))) await warnOfMartians(options);
}

/** Warns that the kernel setting stays: another program may need it. */
async function warnOfMartians(options: BackendOptions): Promise<void> {
  const { name } = ROUTE_LOOPBACK;
  if (await readSysctl(options, name) !== "1") return;
  options.logger.warn(
    "the kernel still routes loopback addresses, and Sluice no longer drops packets to them from other hosts and pods",
    { setting: name, fix: `unless a kubelet or kube-proxy drops them, run sysctl -w ${name}=0` },
  );
}

async function findOurs(tools: IptablesTools, stays: Layout | undefined): Promise<SavedTable[]> {
  const tables: SavedTable[] = [];
  const chainStays = (name: string, chain: string) => {
    const table = TABLES.find((known) => known === name);
    return table && stays && (stays.baseChains[table].includes(chain) || stays.isServiceChain(table, chain));
  };
  const jumpStays = (jump: Jump<string>) =>
    stays?.jumps.some(({ table, from, rule }) => table === jump.table && from === jump.from && rule === jump.rule);
  await tools.save((line) => {
    const table = tables.at(-1);
    if (line.startsWith("*")) tables.push({ name: line.slice(1), chains: [], jumps: [] });
    else if (line.startsWith(":")) {
      const chain = line.slice(1, line.indexOf(" "));
      if (table && OURS.test(chain) && !chainStays(table.name, chain)) table.chains.push(chain);
    } else if (line.startsWith("-A ")) {
      const end = line.indexOf(" ", 3), from = line.slice(3, end), to = / -[jg] (\S+)/.exec(line)?.[1];
      if (!table || to === undefined || !OURS.test(to) || OURS.test(from)) return;
      const jump = { table: table.name, from, rule: line.slice(end + 1) };
      if (!jumpStays(jump)) table.jumps.push(jump);
    }
  });
  return tables;
}

/** The time of a transaction grows with the square of its chains, so many chains are removed in several transactions. */
const CHAINS_AT_ONCE = 1000;

/** The inputs that remove a table's chains: the jumps to them first, then their rules, then the chains. */
function* removal({ name: table, chains, jumps }: SavedTable): Generator<RestoreInput<string>> {
  if (jumps.length > 0) yield { updates: [], jumps: [], surplusJumps: jumps };
  for (const action of ["empty", "delete"] as const) {
    for (let i = 0; i < chains.length; i += CHAINS_AT_ONCE) {
      const some = chains.slice(i, i + CHAINS_AT_ONCE);
      yield { updates: some.map((chain) => ({ table, chain, action })), jumps: [] };
    }
  }
}
