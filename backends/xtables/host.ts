import type { Family } from "../../core/model/mod.ts";
import { UnsupportedHostError } from "../contract/mod.ts";
import {
  isHostFailure,
  isLackOfFeature,
  repeatingRunner,
  type Runner,
  type ToolFailure,
  ToolMissingError,
} from "../tools/mod.ts";
import { type BaseOptions, compareRule } from "./base_chains.ts";
import { fixedChain } from "./chains.ts";
import { hashRules } from "./realized.ts";
import { type ChainUpdate, createIptablesTools, type Flavour, type IptablesTools } from "./tools.ts";

/** The features of this host's iptables. */
export interface Host extends Omit<BaseOptions, "tcpLiberal"> {
  readonly flavour: Flavour;
}

/** A chain that exists during a trial. */
const TRIAL_CHAIN = "KUBE-SVC-TRIAL";

/**
 * Checks which features this host's iptables supports. A failure without a message, by a signal, or for lack of memory
 * is inconclusive, and the trial is repeated.
 * @throws {UnsupportedHostError} if iptables does not work for this family
 * @throws {Error} if a trial failed for another reason
 */
export async function examineHost(family: Family, runner: Runner): Promise<Host> {
  const tools = createIptablesTools(family, repeatingRunner(runner));
  try {
    const flavour = await tools.flavour();
    const failure = await trialFailure(tools, []);
    if (failure !== undefined) {
      const message = `this host's iptables does not work for ${family}: ${failure.text}`;
      throw isLackOfFeature(failure) ? new UnsupportedHostError(message) : new Error(message);
    }
    if (await works(tools, [`${compareRule(family)}-j MASQUERADE --random-fully`])) {
      return { family, flavour, hairpin: "compare", randomFully: true };
    }
    const hairpin = await works(tools, [`${compareRule(family)}-j MASQUERADE`]) ? "compare" : "per-endpoint";
    return { family, flavour, hairpin, randomFully: await works(tools, ["-j MASQUERADE --random-fully"]) };
  } catch (error) {
    if (!(error instanceof ToolMissingError)) throw error;
    throw new UnsupportedHostError(`iptables mode cannot serve ${family} on this host`, { cause: error });
  }
}

async function works(tools: IptablesTools, rules: readonly string[]): Promise<boolean> {
  const failure = await trialFailure(tools, rules);
  if (failure && isHostFailure(failure)) {
    throw new Error(`cannot determine the features of iptables: ${failure.text}`);
  }
  return failure === undefined;
}

/** Writes rules into a chain that no packet reaches, and deletes it again. */
async function trialFailure(tools: IptablesTools, rules: readonly string[]): Promise<ToolFailure | undefined> {
  const trial = { table: "nat", chain: TRIAL_CHAIN } as const;
  const write: ChainUpdate = { ...trial, action: "write", rendered: fixedChain(rules), hash: hashRules(rules) };
  const written = await tools.restore({ updates: [write] });
  const deleted = await tools.restore({ updates: [{ ...trial, action: "delete" }] });
  return written ?? deleted;
}
