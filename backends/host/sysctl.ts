import type { KernelSetting } from "../../core/model/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import { errorText, type Logger } from "../../platform/mod.ts";
import { failureText, type Runner, type ToolResult } from "../tools/mod.ts";

const INT_MAX = 2 ** 31 - 1;
const FLAG = [1, 1] as const;
const SECONDS = [1, INT_MAX] as const;

/** All sysctls that Sluice ever writes, each with its minimum and maximum. */
const WRITTEN = {
  "net.ipv4.conf.all.arp_announce": [2, 2],
  "net.ipv4.conf.all.arp_ignore": [1, 1],
  "net.ipv4.conf.all.route_localnet": [0, 1],
  "net.ipv4.ip_forward": FLAG,
  "net.ipv4.vs.conn_reuse_mode": [0, 0],
  "net.ipv4.vs.conntrack": FLAG,
  "net.ipv4.vs.expire_nodest_conn": FLAG,
  "net.ipv4.vs.expire_quiescent_template": FLAG,
  "net.netfilter.nf_conntrack_acct": FLAG,
  "net.netfilter.nf_conntrack_buckets": [1, INT_MAX >> 2],
  "net.netfilter.nf_conntrack_max": [1, INT_MAX],
  "net.netfilter.nf_conntrack_tcp_be_liberal": FLAG,
  "net.netfilter.nf_conntrack_tcp_timeout_close_wait": SECONDS,
  "net.netfilter.nf_conntrack_tcp_timeout_established": SECONDS,
  "net.netfilter.nf_conntrack_udp_timeout": SECONDS,
  "net.netfilter.nf_conntrack_udp_timeout_stream": SECONDS,
} as const satisfies Readonly<Record<string, readonly [number, number]>>;

/** Whether Sluice ever writes this value to this sysctl. */
export function isWritten({ name, value }: KernelSetting): boolean {
  if (!Object.hasOwn(WRITTEN, name)) return false;
  const [least, greatest] = WRITTEN[name as keyof typeof WRITTEN];
  return Number.isInteger(value) && value >= least && value <= greatest;
}

/** The dependencies of reading and writing sysctls. */
interface SysctlOptions {
  readonly runner: Runner;
  readonly logger: Logger;
  /** Receives the failures; each setting is a scope. */
  readonly onProblems?: ReportProblems;
}

/** Reports that a kernel setting cannot be read or set or, without `detail`, that it could. */
export function reportSetting({ onProblems }: Pick<SysctlOptions, "onProblems">, name: string, detail?: string): void {
  onProblems?.(
    `setting ${name}`,
    detail === undefined ? [] : [{ code: "kernel-setting-failed", subject: name, detail }],
  );
}

/** A healthy sysctl takes milliseconds. */
const TIMEOUT_MS = 10_000;

/**
 * Sets sysctls: one call reads all of them, one writes those that differ. A failure is reported and the value stays, so
 * that services are served all the same. Writes only what `isWritten` permits.
 */
export async function writeSysctls(options: SysctlOptions, settings: readonly KernelSetting[]): Promise<void> {
  const { runner, logger } = options;
  const failed = ({ name, value, mayFail }: KernelSetting, error: string) => {
    if (mayFail) logger.info("kernel setting not set, keeping its value", { setting: name, value, error });
    else reportSetting(options, name, `${value} not set: ${error}`);
  };
  const isSet = ({ name }: KernelSetting) => reportSetting(options, name);
  const permitted = settings.filter(isWritten);
  for (const setting of settings) if (!isWritten(setting)) failed(setting, "Sluice does not write this value there");
  if (permitted.length === 0) return;
  const run = (args: readonly string[]) => runner.run({ tool: "sysctl", args, timeoutMs: TIMEOUT_MS });
  try {
    const read = await run(permitted.map(({ name }) => name));
    const before = printedValues(read);
    const wanted = permitted.filter((setting) => {
      const { name, value, atLeast } = setting, current = before.get(name);
      if (current === undefined) failed(setting, messagesAbout(name, read));
      if (current === undefined) return false;
      const isRight = atLeast ? Number(current) >= value : current === String(value);
      if (isRight) isSet(setting);
      return !isRight;
    });
    if (wanted.length === 0) return;
    const written = await run(["-w", ...wanted.map(({ name, value }) => `${name}=${value}`)]);
    // The exit status does not help: it is 0 even for values that the kernel refuses (procps 4).
    const after = printedValues(written);
    for (const setting of wanted) {
      const { name, value } = setting;
      if (after.get(name) !== String(value)) failed(setting, messagesAbout(name, written));
      else {
        logger.info("kernel setting changed", { setting: name, value, before: before.get(name) });
        isSet(setting);
      }
    }
  } catch (error) {
    for (const setting of permitted) failed(setting, errorText(error));
  }
}

/** Reads sysctls in one call, by name; sysctls that the kernel does not have are absent. Throws if sysctl cannot be run. */
export async function readSysctls(runner: Runner, names: readonly string[]): Promise<ReadonlyMap<string, string>> {
  return printedValues(await runner.run({ tool: "sysctl", args: names, timeoutMs: TIMEOUT_MS }));
}

/** Reads the sysctls whose names match a regular expression. Throws if sysctl cannot be run. */
export async function findSysctls(runner: Runner, pattern: string): Promise<ReadonlyMap<string, string>> {
  const args = ["-a", "-r", pattern];
  return printedValues(await runner.run({ tool: "sysctl", args, timeoutMs: TIMEOUT_MS }));
}

/** Reads a sysctl; undefined if the kernel does not have it, or if it cannot be read in time, which is reported. */
export async function readSysctl(options: SysctlOptions, name: string): Promise<string | undefined> {
  try {
    const value = (await readSysctls(options.runner, [name])).get(name);
    reportSetting(options, name);
    return value;
  } catch (error) {
    reportSetting(options, name, `not read: ${errorText(error)}`);
    return undefined;
  }
}

/** The values that sysctl read or wrote, from its output `NAME = VALUE`. */
function printedValues({ stdout }: ToolResult): Map<string, string> {
  const values = new Map<string, string>();
  for (const line of stdout.split("\n")) {
    const [name, value] = line.split("=", 2);
    if (value !== undefined) values.set(name!.trim(), value.trim());
  }
  return values;
}

/** The messages of sysctl about one setting, which it gives by name or by path. */
function messagesAbout(name: string, result: ToolResult): string {
  const path = name.replaceAll(".", "/");
  const mentions = result.stderr.split("\n").filter((line) => line.includes(name) || line.includes(path));
  return mentions.length > 0 ? mentions.join("; ") : failureText("sysctl", result);
}
