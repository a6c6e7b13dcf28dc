import { FAMILIES, type Family, type Logger } from "../platform/mod.ts";
import type { FamilyHealth } from "../core/channel/mod.ts";

/**
 * Returns a function that takes the families' health and warns about a family that this host cannot serve, once the other one
 * can be served. If neither can, it calls `onNoneSupported` instead.
 */
export function watchSupport(
  logger: Pick<Logger, "warn">,
  onNoneSupported: (reasons: string) => void,
): (family: Family, health: FamilyHealth) => void {
  const reasons = new Map<Family, string>();
  const served = new Set<Family>();
  const warned = new Set<Family>();
  return (family, state) => {
    const isUnsupported = state.state === "unfit" && state.unsupported;
    if (isUnsupported) reasons.set(family, state.reason);
    else {
      reasons.delete(family);
      warned.delete(family);
    }
    if (state.state === "ready" || state.state === "resting") served.add(family);
    else served.delete(family);
    if (reasons.size === FAMILIES.length) {
      const [one, other] = FAMILIES.map((family) => reasons.get(family)!);
      onNoneSupported(one === other ? one! : FAMILIES.map((family) => `${family}: ${reasons.get(family)}`).join("; "));
    }
    if (served.size === 0) return;
    for (const [family, reason] of reasons) {
      if (warned.has(family)) continue;
      warned.add(family);
      logger.warn("this host cannot serve an IP family, serving the other one only", { family, reason });
    }
  };
}
