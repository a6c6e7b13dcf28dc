import type { Family } from "../../core/model/mod.ts";
import { UnsupportedHostError } from "../contract/mod.ts";
import { isRefusal } from "../host/mod.ts";
import { failureText, ToolMissingError, type ToolResult } from "../tools/mod.ts";
import { type BaseOptions, compareRule } from "./base_chains.ts";
import { isHostFailure } from "./restore.ts";
import type { Flavour, IptablesTools } from "./tools.ts";

/** What this host's iptables can do. */
export interface Host extends Omit<BaseOptions, "tcpLiberal"> {
  readonly flavour: Flavour;
}

/** A chain that exists for the time of a try. */
const TRIAL_CHAIN = "KUBE-SVC-TRIAL";

/**
 * Finds out what this host's iptables can do, by trying it. What fails without a word, by being killed, or by a lack of memory
 * decides nothing.
 * @param tools which repeat what failed (see `repeatingRunner`)
 * @throws {UnsupportedHostError} where it can do nothing for this family, and says why
 * @throws {Error} where that could not be found out
 */
export async function examineHost(family: Family, tools: IptablesTools): Promise<Host> {
  try {
    const flavour = await tools.flavour();
    const failure = await trialFailure(tools, []);
    if (failure !== undefined) {
      const message = `this host's iptables does not work for ${family}: ${failureText("iptables-restore", failure)}`;
      throw isRefusal(failure) ? new UnsupportedHostError(message) : new Error(message);
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
    throw new Error(`it could not be found out what iptables can do: ${failureText("iptables-restore", failure)}`);
  }
  return failure === undefined;
}

/** Puts rules into a chain that no packet meets, and removes it again. */
async function trialFailure(tools: IptablesTools, rules: readonly string[]): Promise<ToolResult | undefined> {
  const declare = ["*nat\n", `:${TRIAL_CHAIN} - [0:0]\n`];
  const made = await tools.restore([...declare, ...rules.map((rule) => `-A ${TRIAL_CHAIN} ${rule}\n`), "COMMIT\n"]);
  const removed = await tools.restore([...declare, `-X ${TRIAL_CHAIN}\n`, "COMMIT\n"]);
  return [made, removed].find((result) => result.exitCode !== 0);
}
