import { findSysctls, readSysctls } from "../../../backends/host/mod.ts";
import type { Runner } from "../../../backends/tools/mod.ts";
import type { Family } from "../../../platform/mod.ts";
import type { PathExamination, PathFinding, RuleInTheWay, ServedAddresses } from "../calls.ts";
import { foreignChains, judgeChains } from "./chains.ts";
import { rulesInTheWay } from "./served_reach.ts";

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

/** Lists the chains of other programs for rules that drop packets to or from these addresses. Throws as `examinePath`. */
export async function findRulesInTheWay(
  { runner, family }: { readonly runner: Runner; readonly family: Family },
  served: ServedAddresses,
): Promise<readonly RuleInTheWay[]> {
  return rulesInTheWay(await foreignChains(runner, family), served);
}

const COUNT = "net.netfilter.nf_conntrack_count", MAX = "net.netfilter.nf_conntrack_max";
/** The share of a full connection tracking table, some of whose entries have just expired. */
const FULL_FROM = 0.99;

interface FamilySysctls {
  /** Whether packets of the family are forwarded. */
  readonly forwarding: string;
  /** Matches the settings of single interfaces that permit forwarding although that one is 0. */
  readonly ofInterfaces: string;
  /** IPv6 has no reverse path filtering of its own. */
  readonly reversePath: string | undefined;
}

const SYSCTLS: Readonly<Record<Family, FamilySysctls>> = {
  IPv4: {
    forwarding: "net.ipv4.ip_forward",
    ofInterfaces: "^net\\.ipv4\\.conf\\..*\\.forwarding$",
    reversePath: "net.ipv4.conf.all.rp_filter",
  },
  IPv6: {
    forwarding: "net.ipv6.conf.all.forwarding",
    // Linux 6.17; before, the setting for all interfaces decides (ip6_forward in net/ipv6/ip6_output.c).
    ofInterfaces: "^net\\.ipv6\\.conf\\..*\\.force_forwarding$",
    reversePath: undefined,
  },
};

/** Interfaces whose forwarding forwards nothing: two templates, and loopback. */
const NOT_FORWARDING = /\.conf\.(all|default|lo)\./;

/** Examines the kernel settings that stop packets, and with `suspects` also settings that may stop some. */
async function examineSettings(
  runner: Runner,
  family: Family,
  { suspects }: { readonly suspects: boolean },
): Promise<readonly PathFinding[]> {
  const { forwarding, ofInterfaces, reversePath } = SYSCTLS[family];
  const names = [forwarding, COUNT, MAX, ...(suspects && reversePath !== undefined ? [reversePath] : [])];
  const values = await readSysctls(runner, names);
  const findings: PathFinding[] = [];
  if (values.get(forwarding) === "0" && !await isForwardedSomewhere(runner, ofInterfaces)) {
    const detail = `${forwarding} is 0, so this node forwards no packets to or from pods`;
    findings.push({ cause: "forwarding-off", detail, certain: true });
  }
  const count = Number(values.get(COUNT)), max = Number(values.get(MAX));
  if (max > 0 && count >= FULL_FROM * max) {
    const detail = `${count} of ${max} connections are tracked (${MAX}), so new ones are dropped`;
    findings.push({ cause: "table-full", detail, certain: false });
  }
  if (reversePath !== undefined && values.get(reversePath) === "1") {
    const detail = `${reversePath} is 1, which drops packets whose way back leaves through another interface`;
    findings.push({ cause: "rp-filter", detail, certain: false });
  }
  return findings;
}

/** Whether an interface forwards packets although the setting for all of them is 0. */
async function isForwardedSomewhere(runner: Runner, ofInterfaces: string): Promise<boolean> {
  const values = await findSysctls(runner, ofInterfaces);
  return [...values].some(([name, value]) => value === "1" && !NOT_FORWARDING.test(name));
}
