/** Limits of this process, through `prlimit` and `choom`: Deno can neither read nor set them. */
import { type Finding, problemFinding } from "../../core/problems/mod.ts";
import { errorText } from "../../platform/mod.ts";
import { type Runner, runOrThrow } from "../tools/mod.ts";

/** The number of files (descriptors) that this process may open. */
interface OpenFiles {
  readonly soft: number;
  /** The highest value of `soft` without a privilege. */
  readonly hard: number;
}

/** The limit that deploy/sluice.service sets: room for a listener on every node port, twice. */
const ENOUGH = 65_536;
/** The same for a relay that carries every connection, each with two files. */
export const ENOUGH_FOR_RELAY = 262_144;
const WARN_BELOW = 4_096;
const TIMEOUT_MS = 2_000;

/** The limit of this process. Rejects if `prlimit` fails or is not installed. */
export async function findOpenFiles(runner: Runner): Promise<OpenFiles> {
  // A tool inherits the limits of the process that starts it.
  const stdout = await prlimit(runner, ["--nofile", "--output", "SOFT,HARD", "--noheadings", "--raw"]);
  const [soft, hard] = stdout.trim().split(/\s+/).map((text) => text === "unlimited" ? Infinity : Number(text));
  if (soft === undefined || hard === undefined || Number.isNaN(soft + hard)) {
    throw new Error(`prlimit printed no limits: ${JSON.stringify(stdout.slice(0, 100))}`);
  }
  return { soft, hard };
}

/**
 * Raises the limit of this process, `pid`, up to `enough` files, if allowed, as Go's runtime does for kube-proxy. Returns the
 * new limit. Rejects as `findOpenFiles` does, and if the limit cannot be set.
 */
export async function raiseOpenFiles(runner: Runner, pid: number, enough = ENOUGH): Promise<OpenFiles> {
  const { soft, hard } = await findOpenFiles(runner);
  const raised = Math.min(hard, enough);
  if (raised <= soft) return { soft, hard };
  await prlimit(runner, ["--pid", String(pid), `--nofile=${raised}:`]);
  return { soft: raised, hard };
}

/** Checks the limit for a proxy; undefined means that it could not be read. */
export function judgeOpenFiles(limit: OpenFiles | undefined): Finding {
  const name = "open files";
  if (limit === undefined) {
    const message = "the limit cannot be read: prlimit (util-linux) is missing; 1024 is assumed";
    return problemFinding(name, "open-files-limited", message);
  }
  const most = Math.min(limit.hard, ENOUGH);
  if (most >= WARN_BELOW) return { name, verdict: "green", message: `${most} are allowed` };
  const message = `only ${most} are allowed here: with many health check node ports, some are not served`;
  return problemFinding(name, "open-files-limited", message);
}

async function prlimit(runner: Runner, args: readonly string[]): Promise<string> {
  return (await runOrThrow(runner, { tool: "prlimit", args, timeoutMs: TIMEOUT_MS })).stdout;
}

/** No other work waits for choom, which normally takes milliseconds. */
const CHOOM_TIMEOUT_MS = 5_000;

/**
 * Sets the oom_score_adj of this process (kube-proxy's oomScoreAdj) through `choom`, because this isolate cannot write
 * to /proc. The tool is started before this returns, so that the caller can then drop the permission to start programs.
 * Lowering the score needs CAP_SYS_RESOURCE, which serving does not: resolves with the reason if it fails.
 */
export async function adjustOomScore(runner: Runner, score: number): Promise<string | undefined> {
  try {
    const args = ["-n", String(score), "-p", String(Deno.pid)];
    await runOrThrow(runner, { tool: "choom", args, timeoutMs: CHOOM_TIMEOUT_MS });
    return undefined;
  } catch (error) {
    return errorText(error);
  }
}
