import type { Family } from "../../core/model/mod.ts";
import { UnsupportedHostError } from "../contract/mod.ts";
import { isRefusal, repeatingRunner } from "../host/mod.ts";
import { failureText, type Runner, ToolMissingError } from "../tools/mod.ts";
import { DIALECTS } from "./table.ts";

/** A table that is never in effect: nft checks it with the kernel, and takes it back. */
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
 * Finds out whether this host's nft and kernel can do what is needed, by trying it.
 * @returns the version of nft
 * @throws {UnsupportedHostError} where they cannot, and say why
 * @throws {Error} where that could not be found out
 */
export async function examineHost(family: Family, runner: Runner): Promise<string> {
  const instead = "use mode iptables there, or a newer system";
  try {
    const repeating = repeatingRunner(runner);
    const { stdout } = await repeating.run({ tool: "nft", args: ["--version"] });
    const tried = await repeating.run({ tool: "nft", args: ["-f", "-"], stdin: [...trial(DIALECTS[family].ip)] });
    if (tried.exitCode === 0) return stdout.trim();
    if (/not permitted|Permission denied/.test(tried.stderr)) {
      throw new Error(`${failureText("nft", tried)}; nftables mode needs the capability CAP_NET_ADMIN`);
    }
    if (!isRefusal(tried)) throw new Error(`nft could not be tried for ${family}: ${failureText("nft", tried)}`);
    throw new UnsupportedHostError(
      `nftables mode for ${family} needs nft 1.0.1 and Linux 5.13 or newer, and this host (${stdout.trim()}) does not ` +
        `do what they can: ${failureText("nft", tried)}; ${instead}`,
    );
  } catch (error) {
    if (!(error instanceof ToolMissingError)) throw error;
    throw new UnsupportedHostError(`${error.message}; nftables mode needs nft 1.0.1 or newer; ${instead}`, {
      cause: error,
    });
  }
}
