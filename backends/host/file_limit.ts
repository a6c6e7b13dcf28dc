/** The limit of open files of this process, through `prlimit`: it can neither be read nor be set from here. */
import { type Finding, problemFinding } from "../../core/problems/mod.ts";
import { requireSuccess, type Runner } from "../tools/mod.ts";

/** How many files (descriptors) this process may open. */
export interface OpenFiles {
  readonly soft: number;
  /** What `soft` may be raised to without a privilege. */
  readonly hard: number;
}

/** The limit that deploy/sluice.service sets: room for a listener on every node port, twice. */
const ENOUGH = 65_536;
const WARN_BELOW = 4_096;
const TIMEOUT_MS = 2_000;

/** The limit of this process. Rejects where `prlimit` fails or is not installed. */
export async function findOpenFiles(runner: Runner): Promise<OpenFiles> {
  // A tool has the limits of who starts it.
  const stdout = await prlimit(runner, ["--nofile", "--output", "SOFT,HARD", "--noheadings", "--raw"]);
  const [soft, hard] = stdout.trim().split(/\s+/).map((text) => text === "unlimited" ? Infinity : Number(text));
  if (soft === undefined || hard === undefined || Number.isNaN(soft + hard)) {
    throw new Error(`prlimit printed no limits: ${JSON.stringify(stdout.slice(0, 100))}`);
  }
  return { soft, hard };
}

/**
 * Raises the limit of the process `pid`, which is this one, as far as is of use and allowed, as Go's runtime does for
 * kube-proxy. Returns the limit that holds then. Rejects as `findOpenFiles` does, and where the limit cannot be set.
 */
export async function raiseOpenFiles(runner: Runner, pid: number): Promise<OpenFiles> {
  const { soft, hard } = await findOpenFiles(runner);
  const raised = Math.min(hard, ENOUGH);
  if (raised <= soft) return { soft, hard };
  await prlimit(runner, ["--pid", String(pid), `--nofile=${raised}:`]);
  return { soft: raised, hard };
}

/** The meaning of a limit for a proxy that runs under it; undefined where it could not be found out. */
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
  const result = await runner.run({ tool: "prlimit", args, timeoutMs: TIMEOUT_MS });
  requireSuccess("prlimit", result);
  return result.stdout;
}
