import type { Family } from "../../core/model/mod.ts";
import { UnsupportedHostError } from "../contract/mod.ts";
import { failureOf, isLackOfFeature, repeatingRunner, type Runner, ToolMissingError } from "../tools/mod.ts";
import { DIALECTS } from "./table.ts";
import { NFT_FAILURES } from "./tools.ts";

/** A transaction that adds a table with everything the mode needs and deletes it again, so that it never takes effect. */
function* trial(ip: string): Generator<string> {
  const table = `${ip} sluice-trial`;
  const endpoints = `typeof ${ip} daddr . tcp dport . numgen random mod 65536 : ${ip} daddr . tcp dport`;
  yield `add table ${table}\n`;
  yield `add set ${table} hairpins { typeof ${ip} saddr . ${ip} daddr; }\n`;
  yield `add map ${table} tcp-endpoints { ${endpoints}; }\n`;
  yield `add chain ${table} pick\n`;
  yield `add chain ${table} nat { type nat hook postrouting priority srcnat; policy accept; }\n`;
  yield `add rule ${table} pick dnat ${ip} to ${ip} daddr . tcp dport . numgen random mod 3 map @tcp-endpoints\n`;
  yield `add rule ${table} nat ct status dnat ${ip} saddr . ${ip} daddr @hairpins masquerade fully-random\n`;
  yield `delete table ${table}\n`;
}

/**
 * Checks whether this host's nft and kernel support the mode.
 * @returns the version of nft
 * @throws {UnsupportedHostError} if they lack a feature
 * @throws {Error} if the trial failed for another reason
 */
export async function examineHost(family: Family, runner: Runner): Promise<string> {
  const instead = "use mode iptables there, or a newer system";
  try {
    const repeating = repeatingRunner(runner);
    const { stdout } = await repeating.run({ tool: "nft", args: ["--version"] });
    const tried = await repeating.run({ tool: "nft", args: ["-f", "-"], stdin: [...trial(DIALECTS[family].ip)] });
    const failure = failureOf("nft", tried, NFT_FAILURES);
    if (!failure) return stdout.trim();
    if (failure.kind === "forbidden") {
      throw new Error(`${failure.text}; nftables mode needs the capability CAP_NET_ADMIN`);
    }
    if (!isLackOfFeature(failure)) throw new Error(`cannot test nft for ${family}: ${failure.text}`);
    throw new UnsupportedHostError(
      `nftables mode for ${family} needs nft 1.0.1 and Linux 5.13 or newer, and this host (${stdout.trim()}) lacks ` +
        `a feature of theirs: ${failure.text}; ${instead}`,
    );
  } catch (error) {
    if (!(error instanceof ToolMissingError)) throw error;
    throw new UnsupportedHostError(`${error.message}; nftables mode needs nft 1.0.1 or newer; ${instead}`, {
      cause: error,
    });
  }
}
