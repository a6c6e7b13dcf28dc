import type { Family, PathExamination, PathFinding } from "../../core/model/mod.ts";
import { type Runner, ToolMissingError } from "../tools/mod.ts";
import { type ForeignChain, judgeChains } from "./chains.ts";
import { iptablesChains } from "./iptables_chains.ts";
import { nftChains } from "./nft_chains.ts";
import { examineSettings } from "./settings.ts";

/** The order in which causes are named: a setting or a full table explains more than a suspect among many rules. */
const ORDER = ["forwarding-off", "table-full", "foreign-chain", "rp-filter"] as const;

/**
 * Examines the kernel for reasons why packets of the family may not flow, the most likely first. Throws if a tool cannot be
 * run for another reason than that it is not installed.
 */
export async function examinePath(
  { runner, family }: { readonly runner: Runner; readonly family: Family },
  what: PathExamination,
): Promise<readonly PathFinding[]> {
  if (what === "settings") return await examineSettings(runner, family, { suspects: false });
  const [settings, chains] = await Promise.all([
    examineSettings(runner, family, { suspects: true }),
    foreignChains(runner, family),
  ]);
  const findings = [...settings, ...judgeChains(chains)];
  return findings.sort((a, b) => ORDER.indexOf(a.cause) - ORDER.indexOf(b.cause));
}

/** nft shows the chains of iptables-nft, too; those of iptables-legacy are apart. */
async function foreignChains(runner: Runner, family: Family): Promise<readonly ForeignChain[]> {
  const [fromNft, legacy] = await Promise.all([
    nftChains(runner, family).catch((error: unknown) => {
      if (!(error instanceof ToolMissingError)) throw error;
      return undefined;
    }),
    iptablesChains(runner, family, "legacy"),
  ]);
  const others = fromNft ?? await iptablesChains(runner, family, "default") ?? [];
  return [...others, ...legacy ?? []];
}
