/**
 * What is to be said to who chooses IPVS mode, which Kubernetes deprecates (KEP-5495), with the command that moves this
 * node to nftables mode.
 * @param file the configuration file that chose it; undefined where a flag did
 */
export function ipvsDeprecation(file: string | undefined): string {
  const move = file === undefined
    ? "start it anew as: sluice --proxy-mode nftables (and the other flags as they are)"
    : `start it anew after: sed -i -E 's/("?mode"?: *"?)ipvs/\\1nftables/' ${file}`;
  return `Kubernetes has deprecated mode ipvs and is to remove it (KEP-5495); to move this node to mode nftables, ${move}`;
}
