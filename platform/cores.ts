import { cpus } from "node:os";

/**
 * The number of cores of this machine that are online, whatever share of them a CPU quota or a set of CPUs leaves to this
 * process (kubernetes issue 99225). Without the right to see them, the number that this process may use.
 */
export function machineCores(): number {
  try {
    return cpus().length || navigator.hardwareConcurrency;
  } catch {
    return navigator.hardwareConcurrency;
  }
}
