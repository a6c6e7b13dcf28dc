import { failureText } from "../runner.ts";
import type { BackendOptions } from "../backend.ts";
import { createIptablesTools, type IptablesTools } from "./tools.ts";

/** The chains that Sluice and kube-proxy's iptables mode make; the kubelet's are others (KUBE-KUBELET-CANARY, …). */
const OURS =
  /^KUBE-(SERVICES|NODEPORTS|POSTROUTING|MARK-MASQ|FORWARD|PROXY-FIREWALL|EXTERNAL-SERVICES|PROXY-CANARY|(SVC|SVL|SEP|EXT|FW|XLB)-.+)$/;

/** One table of what iptables-save prints. */
interface SavedTable {
  readonly name: string;
  readonly chains: string[];
  /** Rules of other chains that jump to ours. */
  readonly jumps: string[];
}

/**
 * Removes every chain of Sluice's and of kube-proxy's iptables mode, and the jumps to them, and nothing else.
 * Throws where something could not be removed.
 */
export async function removeAllChains(tools: IptablesTools): Promise<void> {
  for (const table of await findOurs(tools)) {
    for (const input of removal(table)) {
      const result = await tools.restore(input);
      if (result.exitCode !== 0) throw new Error(failureText("iptables-restore", result));
    }
  }
}

/** The same, for the family and with the runner of a backend. */
export async function removeIptablesTraces({ family, runner }: BackendOptions): Promise<void> {
  await removeAllChains(createIptablesTools(family, runner));
}

async function findOurs(tools: IptablesTools): Promise<SavedTable[]> {
  const tables: SavedTable[] = [];
  await tools.save((line) => {
    const table = tables.at(-1);
    if (line.startsWith("*")) tables.push({ name: line.slice(1), chains: [], jumps: [] });
    else if (line.startsWith(":")) {
      const chain = line.slice(1, line.indexOf(" "));
      if (OURS.test(chain)) table?.chains.push(chain);
    } else if (line.startsWith("-A ")) {
      const from = line.slice(3, line.indexOf(" ", 3)), to = / -[jg] (\S+)/.exec(line)?.[1];
      if (to !== undefined && OURS.test(to) && !OURS.test(from)) table?.jumps.push(line);
    }
  });
  return tables;
}

/** A transaction's time grows with the square of its chains, so many are removed in several. */
const CHAINS_AT_ONCE = 1000;

/** The inputs that remove a table's chains: first nothing refers to them any more, then they go. */
function* removal(table: SavedTable): Generator<string[]> {
  if (table.jumps.length > 0) {
    yield [
      `*${table.name}\n`,
      ...table.jumps.map((rule) => `-D${rule.slice(2)}\n`),
      "COMMIT\n",
    ];
  }
  for (const deletes of [false, true]) {
    for (let i = 0; i < table.chains.length; i += CHAINS_AT_ONCE) {
      const chains = table.chains.slice(i, i + CHAINS_AT_ONCE);
      yield [
        `*${table.name}\n`,
        ...chains.map((chain) => `:${chain} - [0:0]\n`),
        ...(deletes ? chains.map((chain) => `-X ${chain}\n`) : []),
        "COMMIT\n",
      ];
    }
  }
}
