/** Examines the node before a proxy runs on it: its tools, its kernel, and other proxies. */
import { type Finding, problemFinding } from "../../core/problems/mod.ts";
import type { IpvsSettings, ProxyMode } from "../../core/model/mod.ts";
import { findTraces, type Mode } from "../mod.ts";
import { findOpenFiles, judgeOpenFiles } from "../host/mod.ts";
import type { Runner } from "../tools/mod.ts";
import { findListeners, judgeListeners, judgeTraces } from "./conflicts.ts";
import { findConntrackSize, judgeConntrack } from "./conntrack.ts";
import { findModules, judgeModules, judgeTrials, tryKernel } from "./kernel.ts";
import { findTools, judgeTools } from "./tools.ts";

/** Inputs of `examineNode`. */
export interface PreflightOptions {
  readonly mode: Mode;
  /** Every mode: another one may have left traces. */
  readonly modes: readonly Mode[];
  /** The settings of IPVS mode; undefined in other modes. */
  readonly ipvs: IpvsSettings | undefined;
  readonly runner: Runner;
  readonly uid: number | null;
  /** The kernel's release: `6.1.0-18-amd64`. */
  readonly kernel: string;
  /** The ports that the proxy listens on. */
  readonly ports: readonly number[];
  /** The limit of tracked connections in the configuration; undefined if that leaves it unchanged. */
  readonly conntrackMax: number | undefined;
  /** The mode of the Sluice that runs here; undefined if none does. */
  readonly running: ProxyMode | undefined;
}

/** Examines the node, and leaves no change on it: see `tryKernel`. */
export async function examineNode(options: PreflightOptions): Promise<readonly Finding[]> {
  const { mode, modes, ipvs, runner, uid, ports, conntrackMax, running } = options;
  const { description } = mode, { name } = description;
  const tools = await findTools(description, runner);
  // A running proxy proves that the mode works, and a concurrent trial would disturb it.
  const trials = running === name ? undefined : await tryKernel(mode, ipvs, runner);
  return [
    ...judgeRights(uid),
    ...judgeTools(description, tools),
    { name: "release", verdict: "green", message: `Linux ${options.kernel}` },
    ...(trials === undefined
      ? [
        {
          name: "kernel",
          verdict: "green",
          message: `in use by the running Sluice in ${name} mode`,
        } as const,
      ]
      : [...judgeTrials(name, trials), judgeModules(await findModules(description, runner), trials)]),
    ...judgeListeners(await findListeners(runner), ports, running !== undefined),
    ...judgeTraces(await findTraces(modes.map(({ description }) => description), runner), name, running),
    judgeOpenFiles(await findOpenFiles(runner).catch(() => undefined)),
    judgeConntrack(await findConntrackSize(runner), conntrackMax),
  ];
}

/** Whether this process is root: otherwise the other findings may be too pessimistic. */
export function judgeRights(uid: number | null): readonly Finding[] {
  if (uid === 0) return [{ name: "privileges", verdict: "green", message: "running as root" }];
  return [
    problemFinding(
      "privileges",
      "not-root",
      `running as user ${uid}, so some checks may fail or miss something that root would see`,
    ),
  ];
}
