import { foreignChains } from "../../../backends/foreign/mod.ts";
import { findSysctls, readSysctls } from "../../../backends/host/mod.ts";
import type { Runner } from "../../../backends/tools/mod.ts";
import type { Family } from "../../../platform/mod.ts";
import type { PathExamination, PathFinding } from "../path_findings.ts";
import { judgeChains } from "./chains.ts";

/** The order in which causes are named: a setting or a full table explains more than a suspect among many rules. */
const ORDER = ["forwarding-off", "table-full", "foreign-chain", "rp-filter"] as const;

/**
 * Examines the kernel for reasons why packets of the family may not flow, the most likely first: the settings that stop
 * packets or, with `everything`, also what may stop some. Throws if a tool cannot be run for another reason than that it is
 * not installed.
 */
export async function examinePath(
  { runner, family }: { readonly runner: Runner; readonly family: Family },
  what: PathExamination,
): Promise<readonly PathFinding[]> {
  const isComplete = what === "everything";
  const [settings, chains] = await Promise.all([
    examineSettings(runner, family, isComplete),
    isComplete ? foreignChains(runner, family) : [],
  ]);
  const findings = [...settings, ...judgeChains(chains)];
  return findings.sort((a, b) => ORDER.indexOf(a.cause) - ORDER.indexOf(b.cause));
}

const COUNT = "net.netfilter.nf_conntrack_count", MAX = "net.netfilter.nf_conntrack_max";
/** The share of a full connection tracking table, some of whose entries have just expired. */
const FULL_FROM = 0.99;

/** `ofInterfaces` matches the settings of single interfaces that permit forwarding although `forwarding` is 0. */
const SYSCTLS = {
  IPv4: {
    forwarding: "net.ipv4.ip_forward",
    ofInterfaces: "^net\\.ipv4\\.conf\\..*\\.forwarding$",
    reversePath: "net.ipv4.conf.all.rp_filter",
  },
  IPv6: {
    forwarding: "net.ipv6.conf.all.forwarding",
    // Linux 6.17; before, the setting for all interfaces decides (ip6_forward in net/ipv6/ip6_output.c).
    ofInterfaces: "^net\\.ipv6\\.conf\\..*\\.force_forwarding$",
    // IPv6 has no reverse path filtering of its own.
    reversePath: undefined,
  },
} as const;

/** Interfaces whose forwarding forwards nothing: two templates, and loopback. */
const NOT_FORWARDING = /\.conf\.(all|default|lo)\./;

async function examineSettings(runner: Runner, family: Family, withSuspects: boolean): Promise<readonly PathFinding[]> {
  const { forwarding, ofInterfaces, reversePath } = SYSCTLS[family];
  const names = [forwarding, COUNT, MAX, ...(withSuspects && reversePath !== undefined ? [reversePath] : [])];
  const values = await readSysctls(runner, names);
  const findings: PathFinding[] = [];
  const isForwarded = ([name, value]: readonly [string, string]) => value === "1" && !NOT_FORWARDING.test(name);
  if (values.get(forwarding) === "0" && ![...await findSysctls(runner, ofInterfaces)].some(isForwarded)) {
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
