/** Properties of this host and of the environment of this process, and the seam for running programs. */

/**
 * Returns the number of online cores of the machine, regardless of this process's CPU quota or cpuset (kubernetes issue
 * 99225). Without permission to read it, returns the number of cores available to this process.
 */
export async function machineCores(): Promise<number> {
  try {
    // Loaded late because every isolate loads this file.
    const { cpus } = await import("node:os");
    return cpus().length || navigator.hardwareConcurrency;
  } catch {
    return navigator.hardwareConcurrency;
  }
}

/** Returns the CPU time of this process, all isolates, user and system, in milliseconds. */
export function processCpuMs(): number {
  // Missing in Deno's types; `process.cpuUsage`, which calls it, would load a hundred modules of Node.
  const { cpuUsage } = Deno as unknown as {
    readonly cpuUsage: () => { readonly user: number; readonly system: number };
  };
  const { user, system } = cpuUsage();
  return (user + system) / 1000;
}

const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Returns PATH, or a default that includes the sbin folders. Needs permission to read the environment. */
export function searchPath(): string {
  return Deno.env.get("PATH") || DEFAULT_PATH;
}

/** Identifies this process's network namespace on this machine; undefined if the runtime denies access. */
export function networkNamespace(): string | undefined {
  try {
    return String(Deno.statSync("/proc/self/ns/net").ino);
  } catch {
    return undefined;
  }
}

/** One run of a credential plugin or hook, which an isolate that may not start programs asks for. */
export interface ProgramCall {
  /** Name on the PATH, or path. */
  readonly program: string;
  readonly args: readonly string[];
  /** Variables added to the environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Its standard input; none if undefined. */
  readonly stdin?: string;
  /** The program is killed after this time. */
  readonly timeoutMs: number;
}

/** Result of a program that exited. */
export interface ProgramResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program. Rejects if it cannot be started or was killed. */
export type RunProgram = (call: ProgramCall) => Promise<ProgramResult>;
