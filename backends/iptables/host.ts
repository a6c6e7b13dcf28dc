import type { Family } from "../../core/model.ts";
import { UnsupportedHostError } from "../backend.ts";
import { failureText, ToolMissingError } from "../runner.ts";
import { type BaseOptions, compareRule } from "./base_chains.ts";
import type { Flavour, IptablesTools } from "./tools.ts";

/** What this host's iptables can do. */
export interface Host extends Omit<BaseOptions, "tcpLiberal"> {
  readonly flavour: Flavour;
}

/** A chain that exists for the time of a try. */
const TRIAL_CHAIN = "KUBE-SVC-TRIAL";

/**
 * Finds out what this host's iptables can do, by trying it.
 * @throws {UnsupportedHostError} where it can do nothing for this family
 */
export async function examineHost(family: Family, tools: IptablesTools): Promise<Host> {
  try {
    const flavour = await tools.flavour();
    const failure = await trialFailure(tools, []);
    if (failure !== undefined) {
      throw new UnsupportedHostError(`this host's iptables does not work for ${family}: ${failure}`);
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
  return await trialFailure(tools, rules) === undefined;
}

/** Puts rules into a chain that no packet meets, and removes it again. */
async function trialFailure(tools: IptablesTools, rules: readonly string[]): Promise<string | undefined> {
  const declare = ["*nat\n", `:${TRIAL_CHAIN} - [0:0]\n`];
  const made = await tools.restore([...declare, ...rules.map((rule) => `-A ${TRIAL_CHAIN} ${rule}\n`), "COMMIT\n"]);
  const removed = await tools.restore([...declare, `-X ${TRIAL_CHAIN}\n`, "COMMIT\n"]);
  const failed = [made, removed].find((result) => result.exitCode !== 0);
  return failed && failureText("iptables-restore", failed);
}
