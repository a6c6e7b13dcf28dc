/** The schedulers of Linux 6 (net/netfilter/ipvs/Kconfig). */
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

/** Modules named like schedulers. */
const OTHER_MODULES = ["ftp", "pe_sip"];

/**
 * The IPVS schedulers in the module lists of a kernel release (`6.1.0-56-amd64`); if the lists cannot be read (for example in a container), the schedulers of
 * Linux 6.
 */
export function ipvsSchedulers(release: string, readFile: (path: string) => string): readonly string[] {
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

/**
 * The warning for ipvs mode, which Kubernetes deprecates (KEP-5495), with the command that moves this node to nftables mode.
 * @param file the configuration file that selects the mode; undefined if a flag does
 */
export function ipvsDeprecation(file: string | undefined): string {
  const move = file === undefined
    ? "restart with: sluice --proxy-mode nftables (and the other flags unchanged)"
    : `run: sed -i -E 's/("?mode"?: *"?)ipvs/\\1nftables/' ${file}`;
  return "Kubernetes has deprecated ipvs mode: kube-proxy's is off by default in 1.40 and removed in 1.43 (KEP-5495). " +
    "docs/ipvs.md lists what replaces each scheduler, and `sluice check --proxy-mode nftables` what will differ on this " +
    `node; to move it to nftables mode, ${move}`;
}
