/** What is known of the kernel that this program runs on. */
export interface KernelModules {
  /** The kernel's release, which names the folder of its modules: `6.1.0-56-amd64`. */
  readonly release: string;
  /** The text of a file; throws where there is none to read. */
  readonly readFile: (path: string) => string;
}

/** The schedulers that Linux 6 has, by the names of their modules (net/netfilter/ipvs/Kconfig). */
const KNOWN_SCHEDULERS = [
  "dh",
  "fo",
  "lblc",
  "lblcr",
  "lc",
  "mh",
  "nq",
  "ovf",
  "rr",
  "sed",
  "sh",
  "twos",
  "wlc",
  "wrr",
];

/** Modules whose names are like those of schedulers. */
const OTHER_MODULES = ["ftp", "pe_sip"];

/**
 * The IPVS schedulers that a kernel has, by the lists of its modules; where there are none to read (in a container, or
 * on another system), those that are known.
 */
export function ipvsSchedulers({ release, readFile }: KernelModules): readonly string[] {
  const found = new Set<string>();
  for (const list of ["modules.dep", "modules.builtin"]) {
    for (const [, name] of textOf(`/lib/modules/${release}/${list}`).matchAll(/\/ip_vs_(\w+)\.ko/g)) found.add(name!);
  }
  for (const name of OTHER_MODULES) found.delete(name);
  return found.size > 0 ? [...found].sort() : KNOWN_SCHEDULERS;

  function textOf(path: string): string {
    try {
      return readFile(path);
    } catch {
      return "";
    }
  }
}
